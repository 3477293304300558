"""vLLM-Omni's dialect with the beta names of audio events, for older pages (specification section 19.4)."""

from collections.abc import Sequence

from antiphon.realtime.dialects.dialect import Dialect
from antiphon.realtime.dialects.vllm import VllmDialect
from antiphon.realtime.settings import SessionSettings
from antiphon.wire.realtime.client_events import ClientEvent
from antiphon.wire.realtime.json_frame import JsonObject
from antiphon.wire.realtime.server_events import ServerEvent

_NAMES = {
    b'{"type":"response.output_audio.': b'{"type":"response.audio.',
    b'{"type":"response.output_audio_transcript.': b'{"type":"response.audio_transcript.',
    b'{"type":"response.output_text.': b'{"type":"response.text.',
}


class VllmLegacyDialect:
    """Renamed, not said twice: a tolerant client would play everything twice."""

    name = "vllm-legacy"

    def __init__(self) -> None:
        self._plain = VllmDialect()
        self.rules = self._plain.rules

    def defaults(self, settings: SessionSettings) -> SessionSettings:
        return self._plain.defaults(settings)

    def settle(self, _: JsonObject, settings: SessionSettings) -> tuple[Dialect, SessionSettings]:
        return self, settings

    def parse(self, body: JsonObject) -> Sequence[ClientEvent]:
        return self._plain.parse(body)

    def render(self, event: ServerEvent) -> Sequence[bytes]:
        return tuple(_renamed(frame) for frame in self._plain.render(event))


def _renamed(frame: bytes) -> bytes:
    """The type is the first field of every frame."""
    for name, legacy in _NAMES.items():
        if frame.startswith(name):
            return legacy + frame[len(name) :]
    return frame
