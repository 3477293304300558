"""The longest time that a session may last, however busy it is, and the word of warning before it ends."""

from antiphon.realtime.session_state import SessionState
from antiphon.wire.realtime import server_events as events


class Lifetime:
    """Counts from the session's opening. Without a limit nothing is ever due."""

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self._has_warned = False

    def next_wakeup(self) -> float | None:
        ends_at_s = self._state.ends_at_s
        if ends_at_s is None or self._has_warned:
            return ends_at_s
        return ends_at_s - self._state.limits.end_warning_s

    def is_over(self, now_s: float) -> bool:
        ends_at_s = self._state.ends_at_s
        return ends_at_s is not None and now_s >= ends_at_s

    def warn_if_due(self, now_s: float) -> None:
        state, ends_at_s = self._state, self._state.ends_at_s
        if ends_at_s is None or self._has_warned or now_s < ends_at_s - state.limits.end_warning_s:
            return
        self._has_warned = True
        left_s = round(ends_at_s - now_s, 3)
        state.emit(
            events.SessionWarning(
                session_id=state.id,
                code="session_expires_soon",
                message=f"a session may last {state.limits.max_session_s:g} s; {left_s:g} s are left",
                details={"seconds_left": left_s},
            )
        )
