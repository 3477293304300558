"""What a duplex session of the evaluation is opened with."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from antiphon.bench.datasets.made_media import data_url
from antiphon.core.errors import ConfigError

# The model's own opening words for a live conversation.
INSTRUCTIONS = "Streaming Omni Conversation."
DEFAULT_URL = "ws://localhost:8099/v1/realtime?duplex=1"


class Pace(Enum):
    """How fast the stream is sent. Only real time keeps the media's clock."""

    REALTIME = "realtime"
    FAST = "as-fast-as-possible"


@dataclass(frozen=True, kw_only=True)
class SessionSettings:
    """One for a whole run. `reference` is the content of a WAV file with the voice that the model takes."""

    url: str
    model: str = ""
    reference: bytes | None = None
    pace: Pace = Pace.REALTIME
    headers: Mapping[str, str] = field(default_factory=dict)
    chunk_ms: int = 200
    ack_interval_s: float = 0.25
    slot_wait_s: float = 120.0  # for a server without a free session
    handshake_s: float = 30.0
    close_s: float = 5.0
    settle_s: float = 1.5  # without a word behind the last unit's answer: nothing more comes

    @property
    def is_realtime(self) -> bool:
        return self.pace is Pace.REALTIME

    def drain_s(self, duration_s: float) -> float:
        """The longest wait for answers once a video of *duration_s* is sent."""
        return max(20.0, duration_s + 20.0)


def parse_pace(name: str) -> Pace:
    try:
        return Pace(name)
    except ValueError:
        known = ", ".join(pace.value for pace in Pace)
        raise ConfigError(f"--pace is {name!r}; known: {known}") from None


def session_url(url: str, model: str) -> str:
    """*url* with what every duplex client asks for; its own parameters stay.

    Raises:
        ConfigError: it is no address of a WebSocket.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("ws", "wss") or not parts.netloc:
        raise ConfigError(f"--url is {url!r}; give ws://HOST:PORT/v1/realtime or wss://…")
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    query.setdefault("duplex", "1")
    if model:
        query.setdefault("model", model)
    query["autostart"] = "0"
    path = parts.path if parts.path not in ("", "/") else "/v1/realtime"
    return urlunsplit((parts.scheme, parts.netloc, path, urlencode(query), ""))


def session_update(settings: SessionSettings) -> dict[str, object]:
    """The first event."""
    session: dict[str, object] = {
        "type": "realtime",
        "modalities": ["text", "audio"],
        "instructions": INSTRUCTIONS,
        "input_audio_format": "pcm16",
        "sample_rate_hz": 16_000,
        "output_audio_format": "pcm16",
        "turn_detection": None,
        "overlap_policy": "listen_only",
        "playback_commit_policy": "ack_only",
        "extra_body": {"auto_response": True, "force_listen_count": 0},
    }
    if settings.model:
        session["model"] = settings.model
    if settings.reference is not None:
        session["ref_audio"] = data_url("audio/wav", settings.reference)
    return {"type": "session.update", "session": session}


def append_event(pcm: bytes, frame: bytes | None, end_ms: int) -> dict[str, object]:
    """16-bit samples, and the frame of the unit that they complete."""
    event: dict[str, object] = {
        "type": "input_audio_buffer.append",
        "audio": base64.b64encode(pcm).decode(),
        "format": "pcm16",
        "sample_rate_hz": 16_000,
        "audio_end_ms": end_ms,
    }
    if frame is not None:
        event["video_frames"] = [base64.b64encode(frame).decode()]
    return event


def read_reference(path: Path | None) -> bytes | None:
    if path is None:
        return None
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"--ref-audio {path}: {error.strerror}") from None
