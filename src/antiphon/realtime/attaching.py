"""Which socket a session speaks to: the first one, a resume, a takeover, a loss (specification sections 2.3 and 10)."""

from antiphon.realtime.life import Life, LifeEvent
from antiphon.realtime.outbox import Outbox
from antiphon.realtime.resume import ResumeRequest
from antiphon.realtime.session_state import SessionState
from antiphon.wire.realtime import server_events as events
from antiphon.wire.realtime.errors import RealtimeError


def open_to(state: SessionState, outbox: Outbox, *, announces_update: bool) -> None:
    """Introduce the session to its first client."""
    state.life.fire(LifeEvent.OPENED)
    state.emitter.outbox = outbox
    created = events.SessionCreated(session=state.shown())
    if state.can_resume:
        created = events.SessionCreated(
            session=state.shown(),
            attachment_generation=state.lease.generation,
            resume_token=state.lease.issue(),
        )
    state.emitter.send_local(created)
    if announces_update:
        state.emit(events.SessionUpdated(session=state.shown()))


def check_resume(state: SessionState, request: ResumeRequest) -> None:
    """All checks, before anything is touched.

    Raises:
        RealtimeError: `journal_gap` stands for `session.resync_required`.
    """
    if not state.life.can(LifeEvent.ATTACH):
        raise RealtimeError("session_resume_expired", "the session has ended")
    if not state.can_resume:
        raise RealtimeError("unsupported_session_resume", "sessions of this dialect cannot be resumed")
    if not state.lease.accepts(request.token):
        raise RealtimeError("invalid_resume_token", "the resume token is not the session's present one")
    state.journal.expire(state.now_s)
    if request.last_seq > state.journal.head:
        raise RealtimeError("session_resume_conflict", "last_received_server_event_seq was never sent")
    if not state.journal.can_replay(request.last_seq):
        raise RealtimeError("journal_gap", "events after last_received_server_event_seq are gone")


def resume_to(state: SessionState, request: ResumeRequest, outbox: Outbox) -> None:
    """Give the session to another socket; it gets what its client has missed, as it was written then."""
    old = state.emitter.outbox
    if old is not None:
        replaced = events.SessionReplaced(session_id=state.id, attachment_generation=state.lease.generation)
        for frame in state.emitter.stamp(replaced):
            old.put(frame, is_reserved=True)
        old.close(1000, "session_replaced")
    state.life.fire(LifeEvent.ATTACH)
    state.lease.attach(state.now_s)
    state.emitter.outbox = outbox
    resumed = events.SessionResumed(
        session_id=state.id,
        session=state.shown(),
        attachment_generation=state.lease.generation,
        resume_token=state.lease.issue(),
    )
    for frame in (*state.emitter.stamp(resumed), *state.journal.after(request.last_seq)):
        outbox.put(frame, is_replay=True)


def lose(state: SessionState, generation: int) -> bool:
    """The socket of *generation* is gone. True: so is the only way back to the session.

    A socket that was replaced does not matter any more, and one that goes while the session ends loses nothing.
    """
    if generation != state.lease.generation and state.life.state is Life.ATTACHED:
        return False
    state.emitter.outbox = None
    if state.life.state is not Life.ATTACHED:
        return False
    if not state.can_resume:
        return True
    state.life.fire(LifeEvent.DETACH)
    state.lease.detach(state.now_s)
    return False
