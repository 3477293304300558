"""OpenAI's Realtime dialect, as its SDK and the voice frameworks built on it speak it (specification section 17)."""

from collections.abc import Sequence
from dataclasses import replace

from antiphon.realtime.dialects.dialect import Dialect, Rules
from antiphon.realtime.dialects.vllm import VllmDialect
from antiphon.realtime.settings import SessionSettings
from antiphon.wire.realtime import server_events as events
from antiphon.wire.realtime.client_events import ClientEvent
from antiphon.wire.realtime.formats import SPEECH_RATE_HZ, AudioFormat, Encoding
from antiphon.wire.realtime.json_frame import JsonObject
from antiphon.wire.realtime.openai_client import is_foreign, openai_event
from antiphon.wire.realtime.openai_server import openai_frame
from antiphon.wire.realtime.openai_session import kept_of
from antiphon.wire.realtime.server_events import ServerEvent

RULES = Rules(
    can_resume=False,
    announces_open=False,
    closes_items=True,
    answers_every_request=True,
    keeps_input=True,
    clamps_truncation=True,
    takes_late_instructions=True,
)


class OpenAiDialect:
    """*is_guess*: the address did not name the dialect, so the first event may still show another one."""

    name = "openai"
    rules = RULES

    def __init__(self, *, is_guess: bool = False) -> None:
        self._is_guess = is_guess
        self._kept: JsonObject = {}
        self._conversation_id = ""

    def defaults(self, settings: SessionSettings) -> SessionSettings:
        """The microphone is open, at 24 kHz, and what was said counts as heard: nobody acknowledges playback here."""
        return replace(
            settings,
            input_format=AudioFormat(Encoding.PCM16, SPEECH_RATE_HZ),
            auto_response=True,
            playback_commit_policy="commit_all_on_done",
        )

    def settle(self, body: JsonObject, settings: SessionSettings) -> tuple[Dialect, SessionSettings]:
        is_guess, self._is_guess = self._is_guess, False
        if not is_guess or not is_foreign(body):
            return self, settings
        plain = SessionSettings()
        return VllmDialect(), replace(
            settings,
            input_format=plain.input_format,
            auto_response=plain.auto_response,
            playback_commit_policy=plain.playback_commit_policy,
        )

    def parse(self, body: JsonObject) -> Sequence[ClientEvent]:
        return (openai_event(body, self._kept),)

    def render(self, event: ServerEvent) -> Sequence[bytes]:
        if isinstance(event, events.SessionCreated | events.SessionUpdated):
            self._kept = kept_of(event.session)
            self._conversation_id = f"conv_{event.session['id']}"
        frame = openai_frame(event, self._conversation_id)
        return () if frame is None else (frame,)
