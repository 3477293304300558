"""The reference voice of a session: where it may come from, and how much of it is kept."""

import binascii
import hashlib
from base64 import b64decode
from dataclasses import dataclass

from antiphon.wire.realtime.errors import RealtimeError

MAX_VOICE_CHARS = 10 * 2**20


@dataclass(frozen=True)
class VoiceClip:
    """An audio file as the client sent it, not decoded: decoding is the engine's intake, off the event loop."""

    data: bytes

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.data).hexdigest()


def parse_voice(value: str) -> VoiceClip:
    """A `data:` URL with base64. Nothing is ever fetched: an address is refused before it is looked at.

    Raises:
        RealtimeError: `invalid_session_config`.
    """
    if len(value) > MAX_VOICE_CHARS:
        raise _refuse(f"has {len(value)} characters; at most {MAX_VOICE_CHARS} are possible")
    head, separator, body = value.partition(",")
    if not head.startswith("data:") or not separator:
        raise _refuse("must be a data URL (data:audio/wav;base64,…); addresses and paths are not read")
    if not head.endswith(";base64"):
        raise _refuse("must be base64")
    try:
        data = b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        raise _refuse("is not valid base64") from None
    if not data:
        raise _refuse("is empty")
    return VoiceClip(data)


def _refuse(reason: str) -> RealtimeError:
    return RealtimeError("invalid_session_config", f"ref_audio {reason}", param="ref_audio")
