"""One duplex session: client events and engine outputs in, frames and engine commands out; no I/O, no clock.

Whoever drives it calls `receive`, `handle` and `tick` one at a time, with the time; after each call it takes
`drain_commands` to the engine and empties the outbox of the attached socket. A mistake of the client never raises: it
is answered by an `error` event.
"""

from dataclasses import dataclass

from antiphon.core.errors import AntiphonError, CapacityError, EngineError, StateError
from antiphon.realtime import engine
from antiphon.realtime.attaching import check_resume, lose, open_to, resume_to
from antiphon.realtime.cancel_flow import CancelFlow
from antiphon.realtime.commit_flow import CommitFlow
from antiphon.realtime.dialects.dialect import Dialect
from antiphon.realtime.dialects.vllm import VllmDialect
from antiphon.realtime.engine import EngineCommand, EngineOutput
from antiphon.realtime.input_flow import InputFlow
from antiphon.realtime.item_flow import ItemFlow
from antiphon.realtime.life import Life, LifeEvent
from antiphon.realtime.lifetime import Lifetime
from antiphon.realtime.limits import CONTROL_S
from antiphon.realtime.outbox import Outbox
from antiphon.realtime.output_flow import OutputFlow
from antiphon.realtime.playback_flow import PlaybackFlow
from antiphon.realtime.request_flow import RequestFlow
from antiphon.realtime.response import Ending
from antiphon.realtime.resume import ResumeRequest
from antiphon.realtime.session_state import SessionState, Surroundings
from antiphon.realtime.settings import SessionSettings
from antiphon.realtime.turn import TurnEvent
from antiphon.realtime.update_flow import UpdateFlow
from antiphon.wire.realtime import client_events as client
from antiphon.wire.realtime import server_events as events
from antiphon.wire.realtime.client_events import ClientEvent
from antiphon.wire.realtime.errors import RealtimeError
from antiphon.wire.realtime.json_frame import JsonObject, parse_object
from antiphon.wire.realtime.parse import event_of

_SIGNALS = {
    "input.cancel": "input.cancel",
    "barge_in": "barge_in",
    "response.cancel": "response.cancel",
    "conversation.item.create": "conversation.item.create",
    "conversation.item.delete": "conversation.item.delete",
    "conversation.item.truncate": "conversation.item.truncate",
    "close": "session.close",
    "timeout": "session.close",
}
_TURN_SIGNALS = {
    "user_started": TurnEvent.USER_STARTED,
    "user_committed": TurnEvent.USER_COMMITTED,
    "assistant_started": TurnEvent.ASSISTANT_STARTED,
    "assistant_done": TurnEvent.ASSISTANT_DONE,
    "playback_ack": TurnEvent.PLAYED,
}
_OPENING_CODES: dict[type[AntiphonError], str] = {
    CapacityError: "resource_exhausted",
    EngineError: "engine_dead",
    StateError: "engine_dead",
}


@dataclass(frozen=True)
class Terminal:
    """How the session ends: its one terminal event is due when the engine has let go, or at the deadline."""

    reason: str
    is_expiry: bool
    deadline_s: float


class Session:
    """See the module. `state` may be read by tests and by whoever shows sessions; only the session changes it."""

    def __init__(
        self,
        session_id: str,
        settings: SessionSettings,
        around: Surroundings,
        *,
        now_s: float,
        can_resume: bool = True,
        dialect: Dialect | None = None,
    ) -> None:
        self.state = SessionState(
            session_id, settings, around, dialect=dialect or VllmDialect(), now_s=now_s, can_resume=can_resume
        )
        self._output = OutputFlow(self.state, self._response_begins, self._response_ended)
        self._input = InputFlow(self.state, self._output, self._user_pauses)
        self._commits = CommitFlow(self.state, self._input, self._output)
        self._requests = RequestFlow(self.state, self._input, self._commits, self._output)
        self._items = ItemFlow(self.state, self._input, self._commits)
        self._playback = PlaybackFlow(self.state, self._output)
        self._cancels = CancelFlow(self.state, self._input, self._commits, self._output)
        self._updates = UpdateFlow(self.state, self._input)
        self._lifetime = Lifetime(self.state)
        self._terminal: Terminal | None = None
        self._last_frame_s = now_s

    @property
    def id(self) -> str:
        return self.state.id

    @property
    def life(self) -> Life:
        return self.state.life.state

    @property
    def generation(self) -> int:
        return self.state.lease.generation

    @property
    def is_over(self) -> bool:
        """The terminal event is written and the slot may be given to another."""
        return self.life is Life.ENDED

    def drain_commands(self) -> list[EngineCommand]:
        """What the engine has to be sent, in order."""
        commands, self.state.commands = self.state.commands, []
        return commands

    # --- attachment

    def opened(self, outbox: Outbox, now_s: float, *, announces_update: bool = True) -> None:
        """The engine has opened the session, and *outbox* leads to its first client."""
        self.state.enter(now_s)
        self._last_frame_s = now_s
        open_to(self.state, outbox, announces_update=announces_update)

    def attach(self, request: ResumeRequest, outbox: Outbox, now_s: float) -> None:
        """Another socket takes the session over.

        Raises:
            RealtimeError: the resume is refused, and nothing has changed; `journal_gap` stands for
                `session.resync_required`.
        """
        self.state.enter(now_s)
        check_resume(self.state, request)
        self._last_frame_s = now_s
        resume_to(self.state, request, outbox)

    def detach(self, generation: int, now_s: float) -> None:
        """The socket of *generation* is gone. That of an older one does not matter any more."""
        self.state.enter(now_s)
        if lose(self.state, generation):
            self.end("disconnect")

    # --- from the client

    def receive_frame(self, frame: str, now_s: float) -> None:
        """Take in one text frame of the attached client, in its dialect."""
        self.state.enter(now_s)
        try:
            body = parse_object(frame)
            self._settle(body)
            asked = self.state.emitter.dialect.parse(body)
        except RealtimeError as error:
            self.refuse(error, now_s)
            return
        for event in asked:
            self.receive(event, now_s)

    def _settle(self, body: JsonObject) -> None:
        """The first frame may show that the client speaks another dialect than its address let expect."""
        state = self.state
        dialect, settings = state.emitter.dialect.settle(body, state.settings)
        if dialect is not state.emitter.dialect:
            state.emitter.dialect = dialect
            state.settings = settings
            state.commands.append(engine.Reconfigure(settings))

    def receive(self, event: ClientEvent, now_s: float) -> None:
        """Take in one event of the attached client."""
        state = self.state
        state.enter(now_s)
        if self._terminal is not None:
            return
        self._last_frame_s = now_s
        state.lease.hear(now_s)
        try:
            self._dispatch(event)
        except RealtimeError as error:
            error.event_id = error.event_id or event.event_id
            state.emitter.error(error, is_local=error.code == "invalid_event_ack")
        self._check_output()

    def refuse(self, error: RealtimeError, now_s: float) -> None:
        """Answer a frame that is no event. Not sequenced: nothing of the session changed."""
        self.state.enter(now_s)
        self._last_frame_s = now_s
        self.state.lease.hear(now_s)
        self.state.emitter.error(error, is_local=True)

    def _dispatch(self, event: ClientEvent) -> None:
        if isinstance(event, client.InputAudioAppend):
            self._append(event)
        elif isinstance(event, client.SessionEventAck):
            self._acknowledge_events(event)
        elif isinstance(event, client.PlaybackAck):
            self._playback.acknowledge(event)
            self._promote_if_idle()
        elif isinstance(event, client.SessionHeartbeat):
            self.state.emit(events.HeartbeatAck(session_id=self.id))
        elif isinstance(event, client.InputAudioCommit):
            self._commits.commit_of_client(event)
        elif isinstance(event, client.InputAudioClear):
            self._cancels.clear_input()
        elif isinstance(event, client.InputCancel | client.BargeIn):
            self._cancels.barge_in()
        elif isinstance(event, client.ResponseCreate):
            self._create_response(event)
        elif isinstance(event, client.ResponseCancel):
            self._cancels.cancel_response(event)
        elif isinstance(event, client.OutputAudioClear):
            self._cancels.clear_output(event)
            self._promote_if_idle()
        else:
            self._dispatch_rare(event)

    def _dispatch_rare(self, event: ClientEvent) -> None:
        if isinstance(event, client.SessionUpdate):
            self._updates.update(event.session)
        elif isinstance(event, client.ItemCreate):
            self._items.create(event)
        elif isinstance(event, client.ItemRetrieve):
            self._items.retrieve(event)
        elif isinstance(event, client.ItemDelete):
            self._items.delete(event)
        elif isinstance(event, client.ItemTruncate):
            self._playback.truncate(event)
            self._promote_if_idle()
        elif isinstance(event, client.TurnSignal):
            self._signal(event)
        elif isinstance(event, client.SessionClose):
            self.end(event.reason or "client_close")
        elif isinstance(event, client.InputTextAppend):
            raise RealtimeError("native_text_append_unsupported", "this model takes no text while it listens")
        else:
            raise RealtimeError("unsupported_session_resume", "session.resume is the first frame of a connection only")

    def _append(self, event: client.InputAudioAppend) -> None:
        if self._input.append(event):
            vad = self.state.settings.turn_detection
            self._commits.commit(client.InputAudioCommit(response_create=vad is not None and vad.create_response))

    def _create_response(self, event: client.ResponseCreate) -> None:
        if self.state.rules.answers_every_request:
            self._requests.create_response(event)
        else:
            self._commits.create_response(event)

    def _acknowledge_events(self, event: client.SessionEventAck) -> None:
        seq = event.server_event_seq
        is_number = isinstance(seq, int) and not isinstance(seq, bool) and seq >= 0
        if not is_number or not isinstance(seq, int) or not self.state.journal.acknowledge(seq):
            raise RealtimeError(
                "invalid_event_ack", "server_event_seq must be a number that was sent", param="server_event_seq"
            )

    def _signal(self, event: client.TurnSignal) -> None:
        if event.event == "session.update":
            self._updates.update(event.payload or {})
        elif event.event in _SIGNALS:
            self._dispatch(event_of({**(event.payload or {}), "type": _SIGNALS[event.event]}))
        else:
            state = self.state
            if event.event in _TURN_SIGNALS:
                state.fire_turn(_TURN_SIGNALS[event.event])
            state.emit(
                events.TurnChanged(
                    session_id=self.id, event=event.event, turn_state=state.turn.state.value, epoch=state.epoch
                )
            )

    # --- from the engine

    def handle(self, output: EngineOutput, now_s: float) -> None:
        """Take in one output of the engine; one of an older epoch changes nothing."""
        state = self.state
        state.enter(now_s)
        if isinstance(output, engine.EngineClosed):
            self._engine_closed()
            return
        if self._terminal is not None:
            return
        state.lease.touch(now_s)
        if isinstance(output, engine.Speech):
            self._output.speech(output)
        elif isinstance(output, engine.Decided):
            self._output.decided(output)
        elif isinstance(output, engine.UnitDone):
            self._output.unit_done(output)
        elif isinstance(output, engine.UnitFailed):
            self._output.unit_failed(output)
        elif isinstance(output, engine.EngineFailed):
            self._output.fail(output.code, output.message)
            self.end("request_cleanup", is_expiry=True)
        else:
            state.emit(
                events.SessionWarning(
                    session_id=self.id, code=output.code, message=output.message, details=output.details
                )
            )
        self._check_output()

    def _engine_closed(self) -> None:
        if self._terminal is None:
            self._output.fail("engine_error", "the engine ended the session")
            self.end("request_cleanup", is_expiry=True)
        self._finish_end()

    # --- time

    def next_wakeup(self) -> float | None:
        """When `tick` has something to do, unless something comes in before."""
        state = self.state
        if self._terminal is not None:
            return None if self.is_over else self._terminal.deadline_s
        running = None if state.response is None else state.response.id
        expiry = state.lease.expiry(is_busy=self._is_busy)
        read_idle = self._last_frame_s + state.settings.idle_timeout_s if self.life is Life.ATTACHED else None
        due = [
            self._lifetime.next_wakeup(),
            None if expiry is None else expiry[0],
            read_idle,
            self._output.next_silence_s(),
            state.ledger.next_deadline(running),
        ]
        return min((at for at in due if at is not None), default=None)

    def tick(self, now_s: float) -> None:
        """Do what is due at *now_s*."""
        state = self.state
        state.enter(now_s)
        if self._terminal is not None:
            if now_s >= self._terminal.deadline_s:
                self._finish_end()
            return
        if self._lifetime.is_over(now_s):
            self.end("max_session_time", is_expiry=True)
            return
        expiry = state.lease.expiry(is_busy=self._is_busy)
        if expiry is not None and now_s >= expiry[0]:
            self.end(expiry[1], is_expiry=True)
            return
        if self.life is Life.ATTACHED and now_s >= self._last_frame_s + state.settings.idle_timeout_s:
            self._read_idle(now_s)
        self._lifetime.warn_if_due(now_s)
        if self._playback.tick():
            self._promote_if_idle()
        self._output.tick()
        self._check_output()

    def _read_idle(self, now_s: float) -> None:
        """The client has been silent for too long: its socket goes, and with it a session that cannot be resumed."""
        if not self.state.can_resume:
            self.end("idle_timeout")
            return
        assert self.state.emitter.outbox is not None
        self.state.emitter.outbox.close(1000, "idle_timeout")
        self.detach(self.generation, now_s)

    @property
    def _is_busy(self) -> bool:
        return self.state.response is not None or len(self.state.chain) > 0

    def _promote_if_idle(self) -> None:
        if not self.state.is_in_progress:
            self._commits.promote()

    def _user_pauses(self) -> None:
        self._commits.close_item()

    def _response_begins(self) -> None:
        self._commits.close_item_for_response()

    def _response_ended(self, ending: Ending) -> None:
        self._commits.response_ended(ending)

    def _check_output(self) -> None:
        """A client that does not read loses its session, not the server its memory."""
        if self._terminal is None and self.state.emitter.is_overflown:
            code, message = "output_backpressure", "the client does not read what it is sent"
            self._output.fail(code, message)
            self.end(code)

    # --- the end

    def end(self, reason: str, *, is_expiry: bool = False) -> None:
        """Close: a running response gets its terminal set, the engine is told, the terminal event follows."""
        state = self.state
        if self._terminal is not None:
            return
        if state.response is not None:
            self._commits.clear()
            self._output.finish(Ending("cancelled", "client_cancelled"))
        state.commands.append(engine.Close(reason))
        state.life.fire(LifeEvent.END)
        state.lease.retire()
        self._terminal = Terminal(reason, is_expiry, state.now_s + CONTROL_S)

    def warn_going_away(self, seconds_left: float, now_s: float) -> None:
        """The server drains: the client may finish, or come back elsewhere."""
        self.state.enter(now_s)
        self.state.emit(
            events.SessionWarning(
                session_id=self.id,
                code="server_going_away",
                message="the server shuts down",
                details={"seconds_left": seconds_left},
            )
        )

    def abandon(self, now_s: float) -> None:
        """Whoever opened the session went away before it was open."""
        self.state.enter(now_s)
        self.end("open_abandoned")

    def _finish_end(self) -> None:
        """The one terminal event."""
        terminal, state = self._terminal, self.state
        if terminal is None or self.is_over:
            return
        state.life.fire(LifeEvent.CLEANED)
        if terminal.is_expiry:
            expired = events.SessionExpired(session_id=self.id, reason=terminal.reason)
            state.emitter.emit_terminal(expired, terminal.reason)
            return
        closed = events.SessionClosed(
            session_id=self.id,
            reason=terminal.reason,
            event={
                "type": "session.closed",
                "session_id": self.id,
                "reason": terminal.reason,
                "usage": state.total.shown(),
            },
        )
        state.emitter.emit_terminal(closed, terminal.reason)


def opening_error(error: AntiphonError) -> RealtimeError:
    """What a client is told when the engine refuses to open a session."""
    if isinstance(error, RealtimeError):
        return error
    return RealtimeError(_OPENING_CODES.get(type(error), "invalid_session_config"), str(error))
