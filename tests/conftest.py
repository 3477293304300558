"""Fixtures for every kind of test."""

import io
import os
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
import soundfile
import torch
from numpy.typing import NDArray

from antiphon.offline.omni import Omni
from antiphon.pipeline.tiny_checkpoint.checkpoint import make_tiny

if not torch.cuda.is_available():
    # Triton decides at its first import whether its own library can be interpreted, and other packages import it too.
    os.environ["TRITON_INTERPRET"] = "1"
torch.set_num_threads(1)  # tiny models: more threads only get in each other's way


@pytest.fixture(scope="session")
def tiny_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny checkpoint of seed 0, made once; do not write into it. Its name has a blank and a non-ASCII letter."""
    folder = tmp_path_factory.mktemp("checkpoints") / "tiny model ü"
    make_tiny(folder, seed=0)
    return folder


@pytest.fixture(scope="session")
def tiny_omni(tiny_checkpoint: Path) -> Iterator[Omni]:
    """The tiny checkpoint, loaded once with speech."""
    with Omni(tiny_checkpoint, device="cpu") as omni:
        yield omni


@pytest.fixture(scope="session")
def tone() -> Callable[..., NDArray[np.float32]]:
    """Makes a quiet 440 Hz tone, [N] float32."""

    def make(duration_s: float = 1.0, rate_hz: int = 16_000) -> NDArray[np.float32]:
        t = np.arange(round(duration_s * rate_hz)) / rate_hz
        return (0.3 * np.sin(2 * np.pi * 440 * t)).astype(np.float32)

    return make


@pytest.fixture(scope="session")
def encode_audio() -> Callable[..., bytes]:
    """Encodes samples [N] or [N, channels] to the bytes of a file."""

    def encode(
        samples: NDArray[np.generic], rate_hz: int = 16_000, form: str = "WAV", subtype: str | None = None
    ) -> bytes:
        file = io.BytesIO()
        soundfile.write(file, samples, rate_hz, format=form, subtype=subtype)
        return file.getvalue()

    return encode


@pytest.fixture(scope="session")
def encode_video() -> Callable[..., bytes]:
    """Encodes a clip whose frame i is grey of brightness 10·i (at most 250), to the bytes of a file."""

    def encode(
        seconds: float = 2.0,
        fps: int = 5,
        size: tuple[int, int] = (64, 48),
        sound: NDArray[np.float32] | None = None,
        codec: str = "mpeg4",
        container: str = "mp4",
        pixels: str = "yuv420p",
        pts: list[int] | None = None,
    ) -> bytes:
        file = io.BytesIO()
        with av.open(file, "w", format=container) as output:
            video = output.add_stream(codec, rate=fps)
            video.width, video.height = size
            video.pix_fmt = pixels
            audio = output.add_stream("aac", rate=16_000, layout="mono") if sound is not None else None
            output.start_encoding()
            for index in range(round(seconds * fps)):
                shade = np.full((size[1], size[0], 3), min(250, 10 * index), np.uint8)
                frame = av.VideoFrame.from_ndarray(shade, format="rgb24")
                frame.pts = index if pts is None else pts[index]
                frame.time_base = Fraction(1, fps)
                output.mux(video.encode(frame))
            output.mux(video.encode())
            if audio is not None:
                samples = av.AudioFrame.from_ndarray(sound[None], format="fltp", layout="mono")
                samples.sample_rate = 16_000
                samples.pts = 0
                output.mux(audio.encode(samples))
                output.mux(audio.encode())
        return file.getvalue()

    return encode
