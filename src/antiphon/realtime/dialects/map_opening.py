"""`session.init` of OpenBMB's dialect as a `session` object of the session itself."""

import binascii
import io
import logging
import wave
from base64 import b64decode, b64encode

import numpy as np

from antiphon.audio.wav import to_pcm16
from antiphon.realtime.limits import INPUT_RATE_HZ
from antiphon.wire.realtime.errors import RealtimeError
from antiphon.wire.realtime.json_frame import JsonObject
from antiphon.wire.realtime.map_client import MapConfig, MapPayload, MapVoice

logger = logging.getLogger(__name__)

_PARAM = "voice.ref_audio_base64"
_MAGIC = (b"RIFF", b"ID3", b"OggS", b"fLaC")
_LOUDEST = 8.0  # of samples that are meant as sound


def session_of(payload: MapPayload) -> JsonObject:
    """What the client asks for.

    Raises:
        RealtimeError: `invalid_session_config` or `invalid_video_frames`.
    """
    config = payload.config or MapConfig()
    if isinstance(payload.max_slice_nums, bool) or payload.max_slice_nums not in (None, 1):
        raise RealtimeError(
            "invalid_video_frames",
            "max_slice_nums may be null or 1: slicing is the server's",
            param="max_slice_nums",
        )
    if config.vision_hd:
        logger.info("session.init: no effect of vision_hd: how pictures are cut is the server's")
    extra = {
        "length_penalty": config.length_penalty,
        "tts_enabled": config.tts_enabled,
        "max_kv_tokens": config.max_kv_tokens,
    }
    session: JsonObject = {
        "instructions": payload.system_prompt,
        "temperature": config.temperature,
        "max_tokens": config.max_tokens,
        "ref_audio": _voice(payload.voice or MapVoice()),
        "extra_body": {key: value for key, value in extra.items() if value is not None},
    }
    return {key: value for key, value in session.items() if value is not None}


def _voice(voice: MapVoice) -> str | None:
    """The reference voice as a data URL; None: the server's own."""
    first, second = voice.ref_audio_base64, voice.tts_ref_audio_base64
    if first and second and first != second:
        raise RealtimeError(
            "invalid_session_config",
            "a session has one voice: tts_ref_audio_base64 must be absent or equal to ref_audio_base64",
            param="voice.tts_ref_audio_base64",
        )
    given = first or second
    if not given:
        return None
    try:
        data = b64decode(given, validate=True)
    except (binascii.Error, ValueError):
        raise RealtimeError("invalid_session_config", f"{_PARAM} is not valid base64", param=_PARAM) from None
    return f"data:audio/wav;base64,{b64encode(_file(data)).decode('ascii')}"


def _file(data: bytes) -> bytes:
    """*data* if it is an audio file; bare float32 samples, 16 kHz mono, are made one."""
    if data.startswith(_MAGIC):
        return data
    samples = np.frombuffer(data, "<f4") if len(data) % 4 == 0 else np.zeros(0, np.float32)
    is_sound = len(samples) > 0 and np.isfinite(samples).all() and float(np.abs(samples).max()) <= _LOUDEST
    if is_sound:
        return _wav(samples.astype(np.float32))
    # An MP3 without tags has no magic but the sync of its first frame, which bare samples may have by chance.
    if data[:1] == b"\xff" and len(data) > 1 and data[1] & 0xE0 == 0xE0:
        return data
    raise RealtimeError(
        "invalid_session_config", f"{_PARAM} is neither an audio file nor 32-bit float samples", param=_PARAM
    )


def _wav(samples: np.ndarray) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(INPUT_RATE_HZ)
        writer.writeframes(to_pcm16(samples).tobytes())
    return file.getvalue()
