"""The Talker as a stage: speaks each request's pieces one after another, and hands its codes on in vocoder chunks.

Duplex sessions are the business of `TalkerSessions`, over the same engine.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic

from antiphon.core.errors import AntiphonError, EngineError
from antiphon.core.handoff import Handoff
from antiphon.engine.code_buffer import CodeChunk
from antiphon.engine.device_stream import DeviceStream
from antiphon.engine.talker_job import TalkerCondition, TalkerJob, TalkerMode, TalkerOutput
from antiphon.pipeline.device_loop import TALKER
from antiphon.pipeline.eager.duplex_options import UNIFIED_RULES
from antiphon.pipeline.messages import (
    CodecChunk,
    DrawnCodes,
    RequestFailed,
    SessionTalk,
    SpeechEnd,
    SpokenPiece,
    SpokenUnit,
    StageOutput,
    StagePiece,
    StageRequest,
    TalkerRequest,
)
from antiphon.pipeline.spoken_turn import SpokenTurn
from antiphon.pipeline.stage import DRAW_CODES, Report, Urgency
from antiphon.pipeline.stage_sampling import code_sampling
from antiphon.pipeline.stages.codec_engine import CodecEngine
from antiphon.pipeline.stages.talker_sessions import TalkerSessions


@dataclass
class _Speech:
    """One request's speech on its way."""

    request: TalkerRequest
    turn: SpokenTurn
    pieces: list[SpokenPiece | None] = field(default_factory=list)  # by number; None once it is being spoken
    is_admitted: bool = False


class TalkerStage:
    """Owns the order of a request's conditions. The engine learns of a request with its first one.

    Args:
        engine: draws the codes.
        stream: the engine's.
        is_chunked: hand chunks on while a turn is drawn; otherwise all of them at its end.
        clock: seconds.
    """

    name = TALKER

    def __init__(
        self,
        engine: CodecEngine,
        *,
        stream: DeviceStream,
        is_chunked: bool = True,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._engine = engine
        self._stream = stream
        self._is_chunked = is_chunked
        self._speeches: dict[str, _Speech] = {}
        self._sessions = TalkerSessions(engine, stream=stream, always_flushes=UNIFIED_RULES.always_flushes, clock=clock)
        self._outputs: list[StageOutput] = []

    @property
    def is_busy(self) -> bool:
        return bool(self._outputs or self._sessions.outputs) or not self._engine.is_idle

    def warm_up(self, report: Report) -> None:
        self._engine.warm_up(report)

    def admit(self, request: StageRequest) -> None:
        if isinstance(request, SessionTalk):
            self._sessions.start(request)
            return
        assert isinstance(request, TalkerRequest)
        params = request.sampling
        turn = SpokenTurn(
            request.handoff, min_codes=params.min_tokens, max_codes=params.max_tokens, is_chunked=self._is_chunked
        )
        self._speeches[request.request_id] = _Speech(request, turn)

    def extend(self, piece: StagePiece) -> None:
        if isinstance(piece, SpokenUnit):
            self._sessions.extend(piece)
            return
        assert isinstance(piece, SpokenPiece)
        speech = self._speeches.get(piece.request_id)
        if speech is None or speech.request.epoch != piece.epoch:
            return
        speech.pieces.append(piece)
        speech.turn.push(len(piece.ids), is_last=piece.is_last)
        self._go_on(speech)

    def close_input(self, request_id: str) -> None:
        """The last piece says so itself."""

    def abort(self, request_id: str) -> None:
        if self._sessions.abort(request_id):
            return
        speech = self._speeches.pop(request_id, None)
        if speech is not None and speech.is_admitted:
            self._engine.abort(request_id)

    def urgency(self) -> Urgency:
        return (DRAW_CODES, 0.0)

    def launch(self) -> bool:
        return self._engine.launch()

    def collect(self) -> Sequence[StageOutput]:
        for output in self._engine.collect():
            if output.seq_id in self._sessions:
                self._sessions.take(output)
                continue
            speech = self._speeches.get(output.seq_id)
            if speech is None or speech.request.epoch != output.epoch:
                continue
            try:
                self._take(speech, output)
            except AntiphonError as error:  # the engine refuses the next condition
                self._fail(speech, str(error), code=error.code)
        outputs, self._outputs, self._sessions.outputs = [*self._outputs, *self._sessions.outputs], [], []
        return outputs

    def snapshot(self) -> dict[str, float]:
        return {**self._engine.snapshot(), **self._sessions.snapshot(), "requests": len(self._speeches)}

    def _go_on(self, speech: _Speech) -> None:
        """Give the engine the next condition, or end the speech when there is none left."""
        plan = speech.turn.next_condition()
        if plan is not None:
            piece = speech.pieces[plan.piece]
            assert piece is not None
            speech.pieces[plan.piece] = None
            self._admit_to_engine(speech)
            if self._stream.cuda is not None and piece.rows.is_cuda:
                piece.rows.record_stream(self._stream.cuda)
            is_span = speech.request.handoff is Handoff.SPAN
            self._engine.extend(
                speech.request.request_id,
                TalkerCondition(
                    ids=piece.ids,
                    hidden=piece.rows,
                    has_text_eos=plan.is_last,
                    is_last=plan.is_last,
                    ends_turn=plan.is_last,
                    min_codes=plan.min_codes,
                    # A span loses its last draw at the limit, so one more gives as many codes as were asked for.
                    max_draws=plan.max_codes + is_span,
                    ready=piece.ready,
                ),
            )
        elif speech.turn.is_ended:
            self._end(speech)

    def _admit_to_engine(self, speech: _Speech) -> None:
        if speech.is_admitted:
            return
        request = speech.request
        self._engine.admit(
            TalkerJob(
                seq_id=request.request_id,
                epoch=request.epoch,
                sampling=code_sampling(request.sampling),
                seed=request.seed,
                mode=TalkerMode.STREAM if request.handoff is Handoff.STREAM else TalkerMode.SPAN,
                min_codes=request.sampling.min_tokens,
                max_codes=request.sampling.max_tokens,
                deadline_s=request.deadline_s,
                is_greedy=request.sampling.temperature == 0.0,
            )
        )
        speech.is_admitted = True

    def _take(self, speech: _Speech, output: TalkerOutput) -> None:
        if output.finish_reason == "error":
            self._fail(speech, "the talker's values are not finite")
            return
        if output.codes:
            self._say(DrawnCodes, speech, codes=output.codes)
            self._hand_on(speech, speech.turn.draw(output.codes))
        if output.finish_reason is not None:
            speech.is_admitted = False
        if output.condition_ended or output.finish_reason is not None:
            self._hand_on(speech, speech.turn.end_condition(by_eos=output.finish_reason == "stop"))
            if output.finish_reason is not None and not speech.turn.is_ended:
                self._fail(speech, f"the talker ended the speech too early ({output.finish_reason})")
                return
            self._go_on(speech)

    def _hand_on(self, speech: _Speech, chunks: Sequence[CodeChunk]) -> None:
        for chunk in chunks:
            self._say(CodecChunk, speech, codes=chunk.codes, is_last=chunk.is_last)

    def _end(self, speech: _Speech) -> None:
        self._say(SpeechEnd, speech, reason=speech.turn.reason)
        if not speech.turn.num_codes:
            self._say(CodecChunk, speech, codes=(), is_last=True)
        self.abort(speech.request.request_id)  # a limit may have ended the turn while the engine expects more of it

    def _fail(self, speech: _Speech, message: str, *, code: str = EngineError.code) -> None:
        self._say(RequestFailed, speech, stage=self.name, code=code, message=message)
        self.abort(speech.request.request_id)

    def _say(self, kind: Callable[..., StageOutput], speech: _Speech, **fields: object) -> None:
        request = speech.request
        self._outputs.append(kind(request_id=request.request_id, epoch=request.epoch, **fields))
