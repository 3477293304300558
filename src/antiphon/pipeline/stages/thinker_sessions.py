"""The duplex sessions of the Thinker stage: carries out what each `ThinkerSession` decides.

Units of different sessions share launches: their audio is encoded together, their input joins the engine's prefills,
their answers its decode steps.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Protocol

import torch
from torch import Tensor

from antiphon.core.errors import AntiphonError, CapacityError, ContextLengthError, EngineError
from antiphon.engine.audio_messages import AudioRows, AudioStep
from antiphon.engine.context_window import Cut
from antiphon.engine.device_stream import DeviceStream
from antiphon.engine.thinker_messages import MediaRows, ThinkerJob, ThinkerOutput, ThinkerPiece
from antiphon.pipeline.duplex.thinker_session import Phase, ThinkerSession, UnitResult
from antiphon.pipeline.messages import (
    RequestFailed,
    SessionCancel,
    SessionCut,
    SessionOpened,
    SessionStart,
    SessionUnit,
    SpokenUnit,
    StageOutput,
    UnitDecided,
    UnitRefused,
    UnitWritten,
)
from antiphon.pipeline.stages.media import MediaModel
from antiphon.prompt.duplex_markup import DEFAULT_PREVIOUS_MARKER
from antiphon.prompt.tokenizer import Tokenizer

THINKER = "thinker"
MAX_WAITING_UNITS = 64  # of one session


class SessionEngine(Protocol):
    """What the sessions drive; `ThinkerEngine` is one."""

    def admit(self, job: ThinkerJob) -> None: ...
    def extend(self, seq_id: str, piece: ThinkerPiece) -> None: ...
    def abort(self, seq_id: str) -> None: ...
    def can_cut(self, seq_id: str) -> bool: ...
    def cut(self, seq_id: str, cut: Cut) -> None: ...


class AudioStreams(Protocol):
    """Streaming audio encoders of the sessions; `open` raises CapacityError when all are lent."""

    def open(self, stream_id: str) -> None: ...
    def step(self, steps: Sequence[AudioStep]) -> AudioRows: ...
    def close(self, stream_id: str) -> None: ...
    def warm_up(self, report: Callable[[str], None]) -> None: ...
    def snapshot(self) -> dict[str, float]: ...


@dataclass(frozen=True, eq=False)
class _Ready:
    """A unit that fits into its session's context, its pictures encoded."""

    live: "_Live"
    unit: SessionUnit
    images: list[Tensor]  # each [n, hidden]


@dataclass
class _Live:
    """A session and what is under way for it."""

    session: ThinkerSession
    units: deque[tuple[SessionUnit, float]] = field(default_factory=deque)  # each with its arrival
    rows: list[Tensor] = field(default_factory=list)  # of the running unit's ids
    arrived_s: float = 0.0  # of the running unit


class ThinkerSessions:
    """All sessions of one Thinker.

    Args:
        engine: the Thinker's.
        model: its encoders of pictures and of whole recordings.
        streams: its streaming encoder.
        tokenizer: the model's.
        stream: the engine's.
        hidden_size: of the rows.
        max_positions: of one sequence.
        clock: seconds.
    """

    def __init__(
        self,
        engine: SessionEngine,
        model: MediaModel,
        streams: AudioStreams,
        tokenizer: Tokenizer,
        *,
        stream: DeviceStream,
        hidden_size: int,
        max_positions: int,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._engine, self._model, self._streams, self._tokenizer = engine, model, streams, tokenizer
        self._stream, self._hidden_size, self._max_positions = stream, hidden_size, max_positions
        self._clock = clock
        self._marker_ids = tuple(tokenizer.encode_plain(DEFAULT_PREVIOUS_MARKER))
        self._live: dict[str, _Live] = {}
        self._cutting: dict[str, None] = {}
        self.outputs: list[StageOutput] = []

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._live

    def warm_up(self, report: Callable[[str], None]) -> None:
        self._streams.warm_up(report)

    def start(self, command: SessionStart) -> None:
        """Feed the system part. Raises AntiphonError: the session cannot be begun, and nothing is held."""
        with self._stream.active():
            mels = [torch.from_numpy(mel).to(self._stream.device) for mel in command.reference]
            reference = torch.cat(self._model.encode_audio(mels)) if mels else None
            ready = self._stream.fence()
        num_reference = 0 if reference is None else len(reference)
        placeholder = (self._tokenizer.special.unk,) * num_reference
        self._streams.open(command.request_id)
        try:
            self._engine.admit(
                ThinkerJob(
                    seq_id=command.request_id,
                    epoch=command.epoch,
                    ids=command.prefix + placeholder + command.suffix,
                    media=() if reference is None else (MediaRows(len(command.prefix), reference, ready=ready),),
                    decode=False,
                    is_resumable=True,
                )
            )
        except AntiphonError:
            self._streams.close(command.request_id)
            raise
        self._live[command.request_id] = _Live(
            ThinkerSession(command, self._tokenizer, marker_ids=self._marker_ids, num_reference=num_reference)
        )

    def unit(self, command: SessionUnit) -> None:
        """Queue a unit; one of a session that has ended is ignored."""
        live = self._live.get(command.request_id)
        if live is None:
            return
        if len(live.units) >= MAX_WAITING_UNITS:
            self._refuse(command, CapacityError(f"{len(live.units)} units of the session wait already"))
        else:
            live.units.append((command, self._clock()))

    def cancel(self, command: SessionCancel) -> None:
        """Cut off what the session says, here and in the stages behind."""
        live = self._live.get(command.request_id)
        if live is not None:
            live.session.cancel(command.epoch)
            self._reset_voice(live.session, ends_turn=True)

    def abort(self, request_id: str) -> bool:
        """End a session; False if it is none of ours."""
        if self._live.pop(request_id, None) is None:
            return False
        self._cutting.pop(request_id, None)
        self._streams.close(request_id)
        self._engine.abort(request_id)
        return True

    @property
    def is_busy(self) -> bool:
        """Whether something here goes on without a new command or output."""
        return bool(self._cutting) or bool(self.outputs) or any(self._can_begin(live) for live in self._live.values())

    def launch(self) -> bool:
        """Carry out due cuts, and begin the units that can begin, their audio encoded together."""
        has_cut = [self._try_cut(request_id) for request_id in list(self._cutting)]
        starting = [live for live in self._live.values() if self._can_begin(live)]
        if starting:
            self._begin(starting)
        return any(has_cut) or bool(starting)

    def take(self, output: ThinkerOutput) -> None:
        """News of a session's sequence."""
        live = self._live.get(output.seq_id)
        if live is None:
            return
        session = live.session
        if output.is_last:
            self._fail(output.seq_id, output.error or "the thinker gave the session up")
        elif session.phase is Phase.OPENING:
            if output.has_ended_turn:
                session.phase = Phase.IDLE
                self._say(SessionOpened, session.start.request_id, session.epoch, num_tokens=session.length)
        elif session.phase is Phase.CLOSING:
            if output.has_ended_turn:
                session.phase = Phase.CUTTING
                self._cutting[output.seq_id] = None
        elif session.is_running:
            self._take_unit(live, output)

    def snapshot(self) -> dict[str, float]:
        return {
            **self._streams.snapshot(),
            "sessions": len(self._live),
            "session_units_waiting": sum(len(live.units) for live in self._live.values()),
            "session_context_tokens": sum(live.session.length for live in self._live.values()),
        }

    def _can_begin(self, live: _Live) -> bool:
        return bool(live.units) and live.session.phase is Phase.IDLE

    def _begin(self, starting: Sequence[_Live]) -> None:
        ready = [entry for live in starting if (entry := self._make_ready(live)) is not None]
        if ready:
            self._feed(ready)

    def _make_ready(self, live: _Live) -> _Ready | None:
        """The session's next unit; None if it is refused, or ends its session."""
        unit, live.arrived_s = live.units.popleft()
        try:
            images = self._encode_images(unit)
        except (AntiphonError, RuntimeError, ValueError) as error:  # torch says RuntimeError, whatever the cause
            self._fail(unit.request_id, f"the pictures of a unit cannot be encoded: {error}")
            return None
        length = live.session.length
        needed = live.session.num_needed(unit, sum(map(len, images)))
        if length + needed <= self._max_positions:
            return _Ready(live, unit, images)
        left = f"{self._max_positions - length} of {self._max_positions} are left; choose a sliding window"
        text = f"the session's context is full: a unit and its answer need {needed} positions, {left}"
        self._refuse(unit, ContextLengthError(text))
        return None

    def _feed(self, ready: Sequence[_Ready]) -> None:
        steps = [
            AudioStep(
                stream_id=unit.request_id,
                mel=torch.from_numpy(unit.mel),
                trim_front=unit.trim_front,
                trim_end=unit.trim_end,
            )
            for unit in (entry.unit for entry in ready)
        ]
        try:
            audio = self._streams.step(steps)
        except AntiphonError as error:
            if len(ready) == 1:
                self._fail(ready[0].unit.request_id, str(error), code=error.code)
            else:  # one is to blame, and the others must not feel it
                for entry in ready:
                    self._feed([entry])
            return
        for entry, rows in zip(ready, audio.rows, strict=True):
            live, unit, images = entry.live, entry.unit, entry.images
            feed = live.session.begin(unit, [len(image) for image in images])
            live.rows = []
            is_deciding = live.session.phase is Phase.DECIDING
            media = [MediaRows(start, image) for start, image in zip(feed.image_starts, images, strict=True)]
            self._extend(
                live,
                ThinkerPiece(
                    ids=feed.ids,
                    media=(*media, MediaRows(feed.audio_start, rows, ready=audio.ready)),
                    duplex=live.session.rule() if is_deciding else None,
                    closes_turn=feed.closes_turn,
                    decode=is_deciding,
                    wants_hidden=is_deciding and live.session.start.speaks,
                    deadline_s=unit.deadline_s,
                    epoch=unit.epoch,
                ),
            )

    def _encode_images(self, unit: SessionUnit) -> list[Tensor]:
        if not unit.images:
            return []
        with self._stream.active():
            strips = [torch.from_numpy(image.strip).to(self._stream.device) for image in unit.images]
            return self._model.encode_images(strips, [image.grid for image in unit.images])

    def _refuse(self, unit: SessionUnit, error: AntiphonError) -> None:
        self._say(UnitRefused, unit.request_id, unit.epoch, number=unit.number, code=error.code, message=str(error))

    def _extend(self, live: _Live, piece: ThinkerPiece) -> None:
        request_id = live.session.start.request_id
        try:
            self._engine.extend(request_id, piece)
        except AntiphonError as error:
            self._fail(request_id, str(error), code=error.code)

    def _take_unit(self, live: _Live, output: ThinkerOutput) -> None:
        session = live.session
        unit = session.unit
        if output.hidden is not None:
            if output.ready is not None:
                self._stream.follow(output.ready)
            live.rows += output.hidden.unbind(0)
        if session.take(output):
            self._say(UnitDecided, unit.request_id, unit.epoch, number=unit.number, speaks=True)
        if output.has_ended_turn:
            self._report(live, session.finish(output.stop_id))

    def _report(self, live: _Live, result: UnitResult) -> None:
        session, unit = live.session, result.unit
        if not result.was_told:
            self._say(UnitDecided, unit.request_id, unit.epoch, number=unit.number, speaks=not result.is_listen)
        self._say(
            UnitWritten,
            unit.request_id,
            unit.epoch,
            number=unit.number,
            ids=() if result.is_listen else result.ids,
            decided_ids=result.decided_ids,
            terminator=result.terminator,
            is_listen=result.is_listen,
            ends_turn=result.ends_turn,
            closed_turn=result.closed_turn,
            num_input_tokens=result.num_input_tokens,
            context_tokens=session.length,
            thinker_s=self._clock() - live.arrived_s,
        )
        if session.start.speaks and not result.is_listen and not result.is_cut_off:
            self._hand_on(live, result)
        if result.resets_voice:
            self._reset_voice(session, ends_turn=False)
        live.rows = []
        if session.phase is Phase.CLOSING:
            ids, closes_turn = session.take_pending()
            self._extend(live, ThinkerPiece(ids=ids, decode=False, closes_turn=closes_turn, epoch=session.epoch))

    def _hand_on(self, live: _Live, result: UnitResult) -> None:
        unit = result.unit
        rows = live.rows[1 : 1 + len(result.ids)]  # the first id is neither text nor speech
        if len(rows) != len(result.ids):
            raise EngineError(f"session {unit.request_id}: {len(result.ids)} ids to speak, {len(rows)} hidden rows")
        with self._stream.active():
            stacked = torch.stack(rows) if rows else torch.empty(0, self._hidden_size, device=self._stream.device)
        self._say(
            SpokenUnit,
            unit.request_id,
            unit.epoch,
            number=unit.number,
            ids=result.ids,
            rows=stacked,
            ends_turn=result.ends_turn,
            deadline_s=unit.deadline_s,
            ready=self._stream.fence(),
        )

    def _reset_voice(self, session: ThinkerSession, *, ends_turn: bool) -> None:
        if session.start.speaks:
            self._say(
                SpokenUnit,
                session.start.request_id,
                session.epoch,
                number=-1,
                ids=(),
                rows=torch.empty(0, self._hidden_size),
                ends_turn=ends_turn,
                resets_voice=True,
            )

    def _try_cut(self, request_id: str) -> bool:
        if not self._engine.can_cut(request_id):
            return False
        del self._cutting[request_id]
        session = self._live[request_id].session
        cut = session.cut
        self._engine.cut(request_id, cut)
        num_tokens = session.applied_cut()
        self._say(
            SessionCut,
            request_id,
            session.epoch,
            num_units=len(cut.dropped),
            num_tokens=num_tokens,
            context_tokens=session.length,
        )
        return True

    def _fail(self, request_id: str, message: str, *, code: str = EngineError.code) -> None:
        session = self._live[request_id].session
        self._say(RequestFailed, request_id, session.epoch, stage=THINKER, code=code, message=message)
        self.abort(request_id)

    def _say(self, kind: Callable[..., StageOutput], request_id: str, epoch: int, **fields: object) -> None:
        self.outputs.append(kind(request_id=request_id, epoch=epoch, **fields))
