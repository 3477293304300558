"""Makes images, sounds and clips from a seed, as `data:` addresses: media for a benchmark without any download."""

import base64
import io
import wave
from fractions import Fraction

import av
import numpy as np
from PIL import Image

VIDEO_FPS = 30
AUDIO_RATE_HZ = 48_000
_JPEG_QUALITY = 90
_CELL_PIXELS = 8  # noise in cells: pixel noise makes files several times larger than any photograph


def data_url(media_type: str, content: bytes) -> str:
    """*content* as a base64 `data:` address."""
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"


def make_image(height: int, width: int, generator: np.random.Generator) -> bytes:
    """A JPEG of coloured cells."""
    file = io.BytesIO()
    Image.fromarray(_noise(height, width, generator)).save(file, format="JPEG", quality=_JPEG_QUALITY)
    return file.getvalue()


def make_audio(duration_s: float, num_channels: int, generator: np.random.Generator) -> bytes:
    """A 48 kHz 16-bit WAV of quiet noise."""
    samples = generator.normal(0, 1000, size=(round(duration_s * AUDIO_RATE_HZ), num_channels)).astype("<i2")
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(num_channels)
        writer.setsampwidth(2)
        writer.setframerate(AUDIO_RATE_HZ)
        writer.writeframes(samples.tobytes())
    return file.getvalue()


def make_video(height: int, width: int, num_frames: int, generator: np.random.Generator) -> bytes:
    """An MP4 of coloured cells, 30 frames a second, without sound. Sides are rounded down to even numbers."""
    file = io.BytesIO()
    with av.open(file, mode="w", format="mp4") as container:
        stream = container.add_stream("mpeg4", rate=VIDEO_FPS)
        stream.height, stream.width = height - height % 2, width - width % 2
        stream.pix_fmt = "yuv420p"
        for place in range(num_frames):
            frame = av.VideoFrame.from_ndarray(_noise(stream.height, stream.width, generator), format="rgb24")
            frame.pts, frame.time_base = place, Fraction(1, VIDEO_FPS)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return file.getvalue()


def _noise(height: int, width: int, generator: np.random.Generator) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    cells = generator.integers(256, size=(-(-height // _CELL_PIXELS), -(-width // _CELL_PIXELS), 3), dtype=np.uint8)
    return np.ascontiguousarray(cells.repeat(_CELL_PIXELS, axis=0).repeat(_CELL_PIXELS, axis=1)[:height, :width])
