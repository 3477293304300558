#!/usr/bin/env python3
"""Makes the media that the examples send: a tune (WAV), a drawing (PNG) and a clip with sound (MP4).

Needs what antiphon itself needs (numpy, Pillow, PyAV). Run it, or let an example run it when a file is missing:

    python examples/sample_media.py [FOLDER]
"""

import sys
import wave
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

DEFAULT_FOLDER = Path(__file__).resolve().parent / "media"
AUDIO, IMAGE, VIDEO = "tune.wav", "harbour.png", "ball.mp4"

RATE_HZ = 16_000
FPS, CLIP_S = 10, 4
SIZE = (320, 240)
# A rising and falling phrase: (frequency in Hz, seconds).
TUNE = ((262, 0.4), (330, 0.4), (392, 0.4), (523, 0.8), (392, 0.4), (330, 0.4), (262, 0.8))


def make_tune() -> NDArray[np.int16]:
    """The tune, [N] int16 at 16 kHz: each note fades like a plucked string."""
    notes = []
    for frequency_hz, duration_s in TUNE:
        t = np.arange(round(duration_s * RATE_HZ)) / RATE_HZ
        tone = sum(np.sin(2 * np.pi * frequency_hz * k * t) / k for k in (1, 2, 3))
        notes.append(0.3 * tone * np.exp(-3 * t) * np.minimum(1, t / 0.01))
    return (np.concatenate(notes) * 32767 * 0.6).astype(np.int16)


def write_audio(path: Path) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE_HZ)
        file.writeframes(make_tune().astype("<i2").tobytes())


def draw_harbour() -> Image.Image:
    """Sea, sun and a boat with a red sail."""
    picture = Image.new("RGB", SIZE, "#9fd3f5")
    draw = ImageDraw.Draw(picture)
    draw.ellipse((235, 25, 285, 75), fill="#ffd54a")
    draw.rectangle((0, 160, *SIZE), fill="#2b6cb0")
    draw.polygon([(90, 165), (210, 165), (190, 195), (110, 195)], fill="#6b4423")
    draw.line((150, 165, 150, 60), fill="#3b2a1a", width=4)
    draw.polygon([(154, 65), (154, 155), (205, 155)], fill="#d64545")
    return picture


def draw_frame(place: int) -> Image.Image:
    """Frame *place* of the clip: a red ball rolls from left to right over grass."""
    picture = Image.new("RGB", SIZE, "#cfe8ff")
    draw = ImageDraw.Draw(picture)
    draw.rectangle((0, 180, *SIZE), fill="#4f9d4f")
    x = 30 + round((SIZE[0] - 60) * place / (FPS * CLIP_S - 1))
    draw.ellipse((x - 22, 138, x + 22, 182), fill="#d62828", outline="#7a1111", width=3)
    return picture


def write_video(path: Path) -> None:
    samples = make_tune()[None, : RATE_HZ * CLIP_S]
    with av.open(str(path), mode="w", format="mp4") as container:
        video = container.add_stream("h264", rate=FPS)  # what browsers play
        video.width, video.height = SIZE
        video.pix_fmt = "yuv420p"
        audio = container.add_stream("aac", rate=RATE_HZ, layout="mono")
        for place in range(FPS * CLIP_S):
            frame = av.VideoFrame.from_image(draw_frame(place))
            frame.pts, frame.time_base = place, Fraction(1, FPS)
            container.mux(video.encode(frame))
        container.mux(video.encode(None))
        sound = av.AudioFrame.from_ndarray(np.ascontiguousarray(samples), format="s16", layout="mono")
        sound.sample_rate = RATE_HZ
        container.mux(audio.encode(sound))
        container.mux(audio.encode(None))


def ensure_media(folder: Path = DEFAULT_FOLDER) -> dict[str, Path]:
    """Make what is missing in *folder*; returns the paths by kind: audio, image, video."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {"audio": folder / AUDIO, "image": folder / IMAGE, "video": folder / VIDEO}
    if not paths["audio"].exists():
        write_audio(paths["audio"])
    if not paths["image"].exists():
        draw_harbour().save(paths["image"])
    if not paths["video"].exists():
        write_video(paths["video"])
    return paths


if __name__ == "__main__":
    for made in ensure_media(Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_FOLDER).values():
        print(made)
