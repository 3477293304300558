"""The telephone codecs G.711 µ-law and A-law, by table."""

import numpy as np
from numpy.typing import NDArray

_BIAS = 33  # in steps of the 14-bit scale


def _ulaw_table() -> NDArray[np.int16]:
    code = ~np.arange(256, dtype=np.int32) & 0xFF
    segment, step = (code >> 4) & 7, code & 15
    magnitude = ((2 * step + 33) << segment) - _BIAS
    return np.where(code & 0x80, -4 * magnitude, 4 * magnitude).astype(np.int16)


def _alaw_table() -> NDArray[np.int16]:
    code = np.arange(256, dtype=np.int32) ^ 0x55
    segment, step = (code >> 4) & 7, code & 15
    magnitude = np.where(segment == 0, 2 * step + 1, (2 * step + 33) << np.maximum(segment - 1, 0))
    return np.where(code & 0x80, 8 * magnitude, -8 * magnitude).astype(np.int16)


ULAW_TABLE = _ulaw_table()
ALAW_TABLE = _alaw_table()


def _encoder(table: NDArray[np.int16]) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Boundaries between neighbouring decoded values, and the codes in the order of those values."""
    order = np.argsort(table, kind="stable")
    values = table[order].astype(np.int32)
    return (values[1:] + values[:-1] + 1) // 2, order.astype(np.uint8)


_ULAW_ENCODER = _encoder(ULAW_TABLE)
_ALAW_ENCODER = _encoder(ALAW_TABLE)


def decode_ulaw(codes: bytes) -> NDArray[np.int16]:
    return ULAW_TABLE[np.frombuffer(codes, np.uint8)]


def decode_alaw(codes: bytes) -> NDArray[np.int16]:
    return ALAW_TABLE[np.frombuffer(codes, np.uint8)]


def encode_ulaw(samples: NDArray[np.int16]) -> bytes:
    """The nearest code of each sample."""
    return _encode(samples, _ULAW_ENCODER)


def encode_alaw(samples: NDArray[np.int16]) -> bytes:
    """The nearest code of each sample."""
    return _encode(samples, _ALAW_ENCODER)


def _encode(samples: NDArray[np.int16], encoder: tuple[NDArray[np.int32], NDArray[np.uint8]]) -> bytes:
    boundaries, codes = encoder
    return codes[np.searchsorted(boundaries, samples.astype(np.int32), side="right")].tobytes()
