"""vLLM-Omni's dialect, which is that of the session itself."""

from collections.abc import Sequence

from antiphon.realtime.dialects.dialect import Dialect, Rules
from antiphon.realtime.settings import SessionSettings
from antiphon.wire.realtime.client_events import ClientEvent
from antiphon.wire.realtime.json_frame import JsonObject
from antiphon.wire.realtime.parse import event_of
from antiphon.wire.realtime.server_events import ServerEvent, render


class VllmDialect:
    """Nothing to translate."""

    name = "vllm"
    rules = Rules()

    def defaults(self, settings: SessionSettings) -> SessionSettings:
        return settings

    def settle(self, _: JsonObject, settings: SessionSettings) -> tuple[Dialect, SessionSettings]:
        return self, settings

    def parse(self, body: JsonObject) -> Sequence[ClientEvent]:
        return (event_of(body),)

    def render(self, event: ServerEvent) -> Sequence[bytes]:
        return (render(event),)
