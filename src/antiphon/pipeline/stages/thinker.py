"""The Thinker as a stage: encodes a prompt's media, follows each answer, and hands its rows to the Talker in pieces.

Duplex sessions are the business of `ThinkerSessions`, over the same engine.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from antiphon.core.errors import AntiphonError, EngineError
from antiphon.core.outputs import FinishReason
from antiphon.engine.counters import Counters
from antiphon.engine.device_stream import DeviceStream
from antiphon.engine.thinker_messages import MediaRows, ThinkerJob, ThinkerOutput, TurnEnd
from antiphon.pipeline.bridge import AnswerBridge, Piece
from antiphon.pipeline.device_loop import THINKER
from antiphon.pipeline.messages import (
    RequestFailed,
    SessionCancel,
    SessionStart,
    SessionUnit,
    SpokenPiece,
    StageOutput,
    StagePiece,
    StageRequest,
    TextEnd,
    TextTokens,
    ThinkerRequest,
)
from antiphon.pipeline.stage import WRITE_TEXT, Report, Urgency
from antiphon.pipeline.stage_sampling import text_sampling
from antiphon.pipeline.stages.thinker_sessions import ThinkerSessions
from antiphon.prompt.tokenizer import Tokenizer

BEHIND_SESSIONS = 1  # priority of requests: a unit of a session has but its own second


class TextEngine(Protocol):
    """What the stage drives; `ThinkerEngine` is one."""

    @property
    def has_work(self) -> bool: ...
    def warm_up(self, report: Callable[[str], None]) -> None: ...
    def admit(self, job: ThinkerJob) -> None: ...
    def abort(self, seq_id: str) -> None: ...
    def launch(self) -> bool: ...
    def collect(self) -> list[ThinkerOutput]: ...
    def snapshot(self) -> dict[str, float]: ...


class Encoder(Protocol):
    """Turns a request's media into rows; `MediaEncoder` is one."""

    def encode(self, request: ThinkerRequest) -> tuple[MediaRows, ...]: ...


@dataclass
class _Reply:
    """One answer on its way."""

    request: ThinkerRequest
    bridge: AnswerBridge
    rows: dict[int, Tensor] = field(default_factory=dict)  # of tokens not yet handed on, each [hidden]
    num_rows: int = 0
    is_ended: bool = False


class ThinkerStage:
    """Owns what of a reply is spoken, and when. Requests with media wait for one launch, in which they are encoded.

    Args:
        engine: draws the tokens.
        encoder: for media.
        tokenizer: the model's.
        stream: the engine's.
        hidden_size: of the rows.
        early_stop: a spoken reply ends at `<|tts_eos|>`; otherwise only at the end of its text.
        counters: where replies that ended so are counted.
        sessions: the duplex sessions over *engine*; None: they are refused.
    """

    name = THINKER

    def __init__(
        self,
        engine: TextEngine,
        encoder: Encoder,
        tokenizer: Tokenizer,
        *,
        stream: DeviceStream,
        hidden_size: int,
        early_stop: bool = True,
        counters: Counters | None = None,
        sessions: ThinkerSessions | None = None,
    ) -> None:
        self._engine = engine
        self._sessions = sessions
        self._encoder = encoder
        self._tokenizer = tokenizer
        self._stream = stream
        self._hidden_size = hidden_size
        self._counters = Counters() if counters is None else counters
        special = tokenizer.special
        self._end_ids = (special.im_end, *((special.tts_eos,) if early_stop else ()), special.endoftext)
        self._replies: dict[str, _Reply] = {}
        self._to_encode: deque[ThinkerRequest] = deque()
        self._outputs: list[StageOutput] = []

    @property
    def is_busy(self) -> bool:
        is_waiting = bool(self._to_encode or self._outputs) or self._engine.has_work
        return is_waiting or (self._sessions is not None and self._sessions.is_busy)

    def warm_up(self, report: Report) -> None:
        self._engine.warm_up(report)
        if self._sessions is not None:
            self._sessions.warm_up(report)

    def admit(self, request: StageRequest) -> None:
        if isinstance(request, (SessionStart, SessionUnit, SessionCancel)):
            self._take_session(request)
            return
        assert isinstance(request, ThinkerRequest)
        bridge = AnswerBridge(self._tokenizer, request.handoff, request.sampling.stop)
        self._replies[request.request_id] = _Reply(request, bridge)
        if request.images or request.audio is not None:
            self._to_encode.append(request)
        else:
            self._engine.admit(self._job(request, ()))

    def extend(self, piece: StagePiece) -> None:
        raise AssertionError(f"{type(piece).__name__}: nothing extends an answer")

    def close_input(self, request_id: str) -> None:
        """An answer has its whole input from the start."""

    def abort(self, request_id: str) -> None:
        if self._sessions is not None and self._sessions.abort(request_id):
            return
        reply = self._replies.pop(request_id, None)
        if reply is None:
            return
        if reply.request in self._to_encode:
            self._to_encode.remove(reply.request)
        else:
            self._engine.abort(request_id)

    def urgency(self) -> Urgency:
        return (WRITE_TEXT, 0.0)

    def launch(self) -> bool:
        has_encoded = bool(self._to_encode)
        if has_encoded:
            self._encode(self._to_encode.popleft())
        if self._sessions is not None:
            has_encoded = self._sessions.launch() or has_encoded
        return self._engine.launch() or has_encoded

    def collect(self) -> Sequence[StageOutput]:
        for output in self._engine.collect():
            reply = self._replies.get(output.seq_id)
            if reply is not None and reply.request.epoch == output.epoch:
                self._take(reply, output)
            elif self._sessions is not None:
                self._sessions.take(output)
        outputs, self._outputs = self._outputs, []
        if self._sessions is not None:
            outputs += self._sessions.outputs
            self._sessions.outputs = []
        return outputs

    def snapshot(self) -> dict[str, float]:
        sessions = {} if self._sessions is None else self._sessions.snapshot()
        return {
            **self._engine.snapshot(),
            **sessions,
            "requests": len(self._replies),
            "to_encode": len(self._to_encode),
        }

    def _take_session(self, command: SessionStart | SessionUnit | SessionCancel) -> None:
        if self._sessions is None:
            raise EngineError("this thinker serves no duplex sessions; start it with session_mode: duplex")
        if isinstance(command, SessionStart):
            self._sessions.start(command)
        elif isinstance(command, SessionUnit):
            self._sessions.unit(command)
        else:
            self._sessions.cancel(command)

    def _encode(self, request: ThinkerRequest) -> None:
        try:
            self._engine.admit(self._job(request, self._encoder.encode(request)))
        except (AntiphonError, RuntimeError, ValueError) as error:  # torch says RuntimeError, whatever the cause
            self._fail(self._replies[request.request_id], error)

    def _job(self, request: ThinkerRequest, media: tuple[MediaRows, ...]) -> ThinkerJob:
        return ThinkerJob(
            seq_id=request.request_id,
            epoch=request.epoch,
            ids=request.ids + request.given,
            media=media,
            rows_from=len(request.ids) if request.given else None,
            decode=not request.given,
            sampling=text_sampling(request.sampling, seed=request.seed, end_ids=self._end_ids),
            wants_hidden=request.handoff is not None,
            deadline_s=request.deadline_s,
            priority=BEHIND_SESSIONS,
        )

    def _take(self, reply: _Reply, output: ThinkerOutput) -> None:
        self._keep_rows(reply, output)
        num_kept = reply.bridge.push(output.new_ids)
        if num_kept:
            self._say(TextTokens, reply, ids=output.new_ids[:num_kept])
        if output.finish_reason is TurnEnd.ERROR:
            self._fail(reply, EngineError(output.error or "the thinker gave the request up"))
            return
        if reply.bridge.is_stopped:
            self._engine.abort(reply.request.request_id)
            self._end(reply, FinishReason.STOP, output)
        elif output.finish_reason is TurnEnd.STOP or (reply.request.given and output.has_ended_turn):
            self._end(reply, FinishReason.STOP, output)
        elif output.finish_reason is TurnEnd.LENGTH:
            self._end(reply, FinishReason.LENGTH, output)
        for piece in reply.bridge.take(reply.num_rows):
            self._hand_on(reply, piece)

    def _keep_rows(self, reply: _Reply, output: ThinkerOutput) -> None:
        if output.hidden is None:
            return
        if output.ready is not None:
            self._stream.follow(output.ready)
        for row in output.hidden.unbind(0):
            reply.rows[reply.num_rows] = row
            reply.num_rows += 1

    def _hand_on(self, reply: _Reply, piece: Piece) -> None:
        rows = [reply.rows[index] for index in range(piece.start, piece.end)]
        with self._stream.active():
            stacked = torch.stack(rows) if rows else torch.empty(0, self._hidden_size, device=self._stream.device)
        for index in [index for index in reply.rows if index < piece.end]:
            del reply.rows[index]
        ids = reply.bridge.ids[piece.start : piece.end]
        self._say(SpokenPiece, reply, ids=tuple(ids), rows=stacked, is_last=piece.is_last, ready=self._stream.fence())

    def _end(self, reply: _Reply, reason: FinishReason, output: ThinkerOutput) -> None:
        reply.bridge.finish()
        if output.stop_id == self._tokenizer.special.tts_eos:
            self._counters.use("early_stop")
        self._say(
            TextEnd,
            reply,
            reason=reason,
            stop_id=None if reply.bridge.is_stopped else output.stop_id,
            num_cached_tokens=output.num_cached_tokens,
        )
        del self._replies[reply.request.request_id]

    def _fail(self, reply: _Reply, error: Exception) -> None:
        code = error.code if isinstance(error, AntiphonError) else EngineError.code
        self._say(RequestFailed, reply, stage=self.name, code=code, message=str(error))
        del self._replies[reply.request.request_id]

    def _say(self, kind: Callable[..., StageOutput], reply: _Reply, **fields: object) -> None:
        request = reply.request
        self._outputs.append(kind(request_id=request.request_id, epoch=request.epoch, **fields))
