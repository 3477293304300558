"""`session.update` of a session that is open: every check before the first change (specification section 4.5)."""

import logging
from collections import deque

from msgspec import UNSET

from antiphon.realtime.engine import Reconfigure
from antiphon.realtime.input_flow import InputFlow
from antiphon.realtime.session_state import SessionState
from antiphon.realtime.settings import SessionSettings, apply_session
from antiphon.wire.realtime import server_events as events
from antiphon.wire.realtime.errors import RealtimeError
from antiphon.wire.realtime.json_frame import JsonObject
from antiphon.wire.realtime.session_fields import SessionFields, parse_session

logger = logging.getLogger(__name__)


class UpdateFlow:
    """A rejected update changes nothing."""

    def __init__(self, state: SessionState, inputs: InputFlow) -> None:
        self._state = state
        self._inputs = inputs
        self._recent: deque[float] = deque()

    def update(self, session: JsonObject) -> None:
        """Raises RealtimeError with the code of the first check that fails."""
        state = self._state
        self._check_rate()
        parsed = parse_session(self._without_late_instructions(session))
        self._check(parsed.fields)
        updated = apply_session(state.settings, parsed, None)
        if updated.window != state.settings.window:
            raise RealtimeError("sliding_window_update_unsupported", "the context window is fixed when a session opens")
        self._stage_detector(updated)
        state.settings = updated
        state.commands.append(Reconfigure(updated))
        state.emit(events.SessionUpdated(session=state.shown()))

    def _check(self, fields: SessionFields) -> None:
        state, now = self._state, self._state.settings
        if fields.model is not UNSET and now.model is not None and fields.model != now.model:
            raise RealtimeError("model_update_unsupported", f"the session's model is {now.model}", param="model")
        if fields.voice is not UNSET and fields.voice != now.voice and state.has_spoken:
            raise RealtimeError("voice_update_after_audio_unsupported", "the session has spoken already", param="voice")
        if fields.ref_audio is not UNSET:
            raise RealtimeError(
                "ref_audio_update_unsupported", "the reference voice is fixed when a session opens", param="ref_audio"
            )
        may_change = state.rules.takes_late_instructions
        if fields.instructions is not UNSET and fields.instructions != now.instructions and not may_change:
            # The model has read them when the session opened; a client that changes them must open another session.
            raise RealtimeError(
                "instructions_update_unsupported", "instructions are fixed when a session opens", param="instructions"
            )

    def _without_late_instructions(self, session: JsonObject) -> JsonObject:
        """Clients of some dialects rewrite them at any time; the model has read its own by the first unit."""
        state = self._state
        if not (state.rules.takes_late_instructions and state.has_submitted and "instructions" in session):
            return session
        logger.info("session %s: instructions came after the first unit and have no effect", state.id)
        return {key: value for key, value in session.items() if key != "instructions"}

    def _stage_detector(self, updated: SessionSettings) -> None:
        """Try a new detector before anything changes, so that a server without one says so here."""
        state = self._state
        if updated.turn_detection is None or updated.turn_detection == state.settings.turn_detection:
            return
        before, state.settings = state.settings, updated
        try:
            self._inputs.make_detector()
        finally:
            state.settings = before

    def _check_rate(self) -> None:
        now = self._state.now_s
        while self._recent and self._recent[0] <= now - 60:
            self._recent.popleft()
        if len(self._recent) >= self._state.limits.max_updates_per_minute:
            raise RealtimeError("input_backpressure", "too many session.update events within a minute")
        self._recent.append(now)
