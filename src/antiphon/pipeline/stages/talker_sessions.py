"""The duplex sessions of the Talker stage: units spoken one after another, their codes cut into vocoder calls.

Specification: model, sections 3.3 and 4.6. The slow twin is `eager.duplex_speech.UnitSpeaker`.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic

from antiphon.core.errors import AntiphonError, EngineError
from antiphon.engine.code_buffer import CodeBuffer
from antiphon.engine.device_stream import DeviceStream
from antiphon.engine.talker_job import TalkerCondition, TalkerJob, TalkerMode, TalkerOutput
from antiphon.pipeline.messages import (
    RequestFailed,
    SessionTalk,
    SpokenUnit,
    StageOutput,
    UnitCodes,
    UnitDrawn,
    UnitRefused,
)
from antiphon.pipeline.stage_sampling import code_sampling
from antiphon.pipeline.stages.codec_engine import CodecEngine

TALKER = "talker"
TALKER_CONTEXT = "talker_context_exceeded"


@dataclass
class _Talk:
    """A session's speech. Invariant: the engine has the condition of `speaking`, and of no other unit.

    `generation` counts the jobs that the engine has had of it; what an older one still says is dropped.
    """

    request: SessionTalk
    buffer: CodeBuffer = field(default_factory=CodeBuffer)
    waiting: deque[SpokenUnit] = field(default_factory=deque)
    speaking: SpokenUnit | None = None
    codes: list[int] = field(default_factory=list)  # of the unit that is spoken
    has_rolled_over: bool = False
    is_turn_start: bool = True
    is_admitted: bool = False
    generation: int = 0
    began_s: float = 0.0


class TalkerSessions:
    """All sessions that speak.

    Args:
        engine: the Talker's.
        stream: the engine's.
        always_flushes: every unit voices a short buffer, not only the first of a turn (see `DuplexRules`).
        clock: seconds.
    """

    def __init__(
        self,
        engine: CodecEngine,
        *,
        stream: DeviceStream,
        always_flushes: bool,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._engine, self._stream, self._always_flushes, self._clock = engine, stream, always_flushes, clock
        self._talks: dict[str, _Talk] = {}
        self.outputs: list[StageOutput] = []

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._talks

    def start(self, request: SessionTalk) -> None:
        self._talks[request.request_id] = _Talk(request)

    def extend(self, unit: SpokenUnit) -> None:
        """Speak *unit* after those before it; one of a session that has ended is ignored."""
        talk = self._talks.get(unit.request_id)
        if talk is None:
            return
        if unit.resets_voice and unit.ends_turn:
            self._cut_off(talk, unit)
        else:
            talk.waiting.append(unit)
            self._go_on(talk)

    def abort(self, request_id: str) -> bool:
        """End a session; False if it is none of ours."""
        talk = self._talks.pop(request_id, None)
        if talk is not None and talk.is_admitted:
            self._engine.abort(request_id)
        return talk is not None

    def take(self, output: TalkerOutput) -> None:
        """News of a session's job."""
        talk = self._talks.get(output.seq_id)
        if talk is None or output.epoch != talk.generation:
            return
        if output.finish_reason == "context":
            self._give_unit_up(talk)
            return
        if output.finish_reason is not None:
            talk.is_admitted = False
            self._fail(talk, f"the talker ended a session's speech ({output.finish_reason})")
            return
        talk.codes += output.codes
        talk.has_rolled_over |= output.has_rolled_over
        if output.condition_ended:
            self._end_unit(talk)
            self._go_on(talk)

    def snapshot(self) -> dict[str, float]:
        return {
            "sessions": len(self._talks),
            "session_units_waiting": sum(len(t.waiting) for t in self._talks.values()),
        }

    def _go_on(self, talk: _Talk) -> None:
        while talk.speaking is None and talk.waiting:
            unit = talk.waiting.popleft()
            if unit.resets_voice:
                self._reset_voice(talk, unit)
            else:
                self._speak(talk, unit)

    def _cut_off(self, talk: _Talk, unit: SpokenUnit) -> None:
        """Nothing of the turn is wanted any more; the next unit begins another."""
        talk.waiting.clear()
        if talk.is_admitted and (talk.speaking is not None or not talk.is_turn_start):
            self._engine.abort(talk.request.request_id)
            self._forget_job(talk)
        self._reset_voice(talk, unit)

    def _reset_voice(self, talk: _Talk, unit: SpokenUnit) -> None:
        talk.buffer.reset()
        self._say(UnitCodes, talk, unit, chunks=(), ends_turn=unit.ends_turn, resets_voice=True)

    def _forget_job(self, talk: _Talk) -> None:
        """The engine's job is over, and with it the turn."""
        talk.speaking, talk.is_admitted, talk.is_turn_start = None, False, True
        talk.generation += 1

    def _speak(self, talk: _Talk, unit: SpokenUnit) -> None:
        talk.speaking, talk.codes, talk.has_rolled_over, talk.began_s = unit, [], False, self._clock()
        if self._stream.cuda is not None and unit.rows.is_cuda:
            unit.rows.record_stream(self._stream.cuda)
        try:
            self._admit(talk)
            self._engine.extend(
                unit.request_id,
                TalkerCondition(
                    ids=unit.ids,
                    hidden=unit.rows,
                    has_text_eos=False,
                    is_last=False,
                    ends_turn=unit.ends_turn,
                    deadline_s=unit.deadline_s,
                    ready=unit.ready,
                ),
            )
        except AntiphonError as error:
            self._fail(talk, str(error), code=error.code)

    def _admit(self, talk: _Talk) -> None:
        if talk.is_admitted:
            return
        request = talk.request
        self._engine.admit(
            TalkerJob(
                seq_id=request.request_id,
                epoch=talk.generation,
                sampling=code_sampling(request.sampling),
                seed=(request.seed + talk.generation) % 2**63,  # a job's draws count from 0
                mode=TalkerMode.UNIT,
                is_greedy=request.sampling.temperature == 0.0,
            )
        )
        talk.is_admitted = True

    def _end_unit(self, talk: _Talk) -> None:
        unit = talk.speaking
        assert unit is not None
        talk.speaking = None
        is_first = talk.is_turn_start or self._always_flushes
        chunks = talk.buffer.push(talk.codes, first=is_first, end_of_turn=unit.ends_turn)
        talk.is_turn_start = unit.ends_turn
        self._say(
            UnitDrawn,
            talk,
            unit,
            codes=tuple(talk.codes),
            has_rolled_over=talk.has_rolled_over,
            talker_s=self._clock() - talk.began_s,
        )
        self._say(
            UnitCodes,
            talk,
            unit,
            chunks=tuple(chunk.codes for chunk in chunks),
            ends_turn=unit.ends_turn,
            deadline_s=unit.deadline_s,
        )

    def _give_unit_up(self, talk: _Talk) -> None:
        """The unit that was to be spoken fits no context: it fails, and the next one begins a turn."""
        unit = talk.speaking
        assert unit is not None
        self._forget_job(talk)
        talk.buffer.reset()
        self._say(
            UnitRefused,
            talk,
            unit,
            code=TALKER_CONTEXT,
            message=f"{len(unit.ids)} tokens of one unit do not fit the talker's context; lower max_tokens",
        )
        self._say(UnitCodes, talk, unit, chunks=(), ends_turn=True, resets_voice=True)
        self._go_on(talk)

    def _fail(self, talk: _Talk, message: str, *, code: str = EngineError.code) -> None:
        request = talk.request
        self.outputs.append(
            RequestFailed(request_id=request.request_id, epoch=request.epoch, stage=TALKER, code=code, message=message)
        )
        self.abort(request.request_id)

    def _say(self, kind: Callable[..., StageOutput], talk: _Talk, unit: SpokenUnit, **fields: object) -> None:
        self.outputs.append(kind(request_id=talk.request.request_id, epoch=unit.epoch, number=unit.number, **fields))
