"""Sound and pictures for cases, ready for the wire."""

import struct
import zlib
from base64 import b64encode

import numpy as np
from numpy.typing import NDArray

_TONE_HZ = 440
RATE_HZ = 16_000


def tone(duration_ms: float, rate_hz: int = RATE_HZ) -> NDArray[np.float32]:
    """Loud audio, float32 [N]."""
    time = np.arange(round(duration_ms * rate_hz / 1000)) / rate_hz
    wave: NDArray[np.float32] = (0.3 * np.sin(2 * np.pi * _TONE_HZ * time)).astype(np.float32)
    return wave


def encode(data: bytes) -> str:
    return b64encode(data).decode("ascii")


def loud(duration_ms: float, rate_hz: int = RATE_HZ) -> str:
    """Base64 of pcm16."""
    return encode((tone(duration_ms, rate_hz) * 32767).astype("<i2").tobytes())


def quiet(duration_ms: float) -> str:
    """Base64 of pcm16 zeros at 16 kHz."""
    return encode(bytes(2 * round(duration_ms * RATE_HZ / 1000)))


def loud_float(duration_ms: float, rate_hz: int = RATE_HZ) -> str:
    """Base64 of little endian float32."""
    return encode(tone(duration_ms, rate_hz).astype("<f4").tobytes())


def loud_g711(duration_ms: float) -> str:
    """Base64 of 8-bit codes at 8 kHz that are loud in µ-law and in A-law alike."""
    count = round(duration_ms * 8)
    return encode(bytes(0x00 if index // 8 % 2 else 0x80 for index in range(count)))


def png() -> str:
    """Base64 of an 8 × 8 grey picture."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", 8, 8, 8, 0, 0, 0, 0)
    rows = zlib.compress((b"\x00" + b"\x80" * 8) * 8)
    return encode(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b""))


def wav(duration_ms: float = 1000) -> str:
    """A data URL of a 16 kHz WAV file: a reference voice."""
    pcm = (tone(duration_ms) * 32767).astype("<i2").tobytes()
    head = (
        b"RIFF"
        + struct.pack("<I", 36 + len(pcm))
        + b"WAVEfmt "
        + struct.pack("<IHHIIHH", 16, 1, 1, 16000, 32000, 2, 16)
    )
    return f"data:audio/wav;base64,{encode(head + b'data' + struct.pack('<I', len(pcm)) + pcm)}"
