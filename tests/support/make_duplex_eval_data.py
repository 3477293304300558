"""Makes `tests/data/omni_duplex_eval`: four clips of moving bars with spoken-like tones, in the data set's layout.

    python tests/support/make_duplex_eval_data.py tests/data/omni_duplex_eval

The first second of each question is loud, the rest silent: a scripted server listens to it, then answers.
"""

import io
import json
import sys
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import soundfile

RATE_HZ, FPS, SECONDS = 16_000, 5, 3
ROWS = (
    {
        "id": "ocr0", "split": "RTD_OCR", "question_text": "Read out what the sign shows.",
        "answer1": "The sign is white on black and moves to the right.", "answer2": "A white bar moves right.",
    },
    {
        "id": "omni0", "split": "RTD_Omni", "question_text": "Describe what you see and hear.",
        "answer1": "A white bar moves to the right while a tone sounds.",
    },
    {
        "id": "corr0", "split": "PR_correction", "question_text": "The bar in the picture is red.",
        "answer1": "The bar in the picture is white.",
    },
    {
        "id": "event0", "split": "PR_event_reminder", "question_text": "Tell me when the bar starts and stops.",
        "answer1": "", "reminder1": 0.5, "reminder2": 200.0,
    },
)  # fmt: skip


def make_video(with_sound: bool) -> bytes:
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as container:
        video = container.add_stream("mpeg4", rate=FPS)
        video.width, video.height, video.pix_fmt = 64, 48, "yuv420p"
        sound = container.add_stream("aac", rate=RATE_HZ, layout="mono") if with_sound else None
        for index in range(FPS * SECONDS):
            picture = np.zeros((48, 64, 3), np.uint8)
            picture[8:40, 3 * index : 3 * index + 8] = 255
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            frame.pts, frame.time_base = index, Fraction(1, FPS)
            container.mux(video.encode(frame))
        container.mux(video.encode(None))
        if sound is not None:
            quiet = np.zeros((1, RATE_HZ * SECONDS), np.float32)
            frame = av.AudioFrame.from_ndarray(quiet, format="fltp", layout="mono")
            frame.sample_rate, frame.pts = RATE_HZ, 0
            container.mux(sound.encode(frame))
            container.mux(sound.encode(None))
    return file.getvalue()


def make_question(pitch_hz: int) -> bytes:
    time = np.arange(RATE_HZ) / RATE_HZ
    loud = 0.3 * np.sin(2 * np.pi * pitch_hz * time) * (time < 0.95)
    file = io.BytesIO()
    soundfile.write(file, np.concatenate((loud, np.zeros(RATE_HZ * (SECONDS - 1)))), RATE_HZ, format="FLAC")
    return file.getvalue()


def main(folder: Path) -> None:
    rows = []
    for index, row in enumerate(ROWS):
        split = row["split"]
        place = folder / "media" / split
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{row['id']}.mp4").write_bytes(make_video(with_sound=index % 2 == 0))
        (place / f"{row['id']}.flac").write_bytes(make_question(220 + 110 * index))
        media = {
            name: f"media/{split}/{row['id']}.{ending}"
            for name, ending in (("video", "mp4"), ("question_audio", "flac"))
        }
        rows.append({**row, **media, "video_type": "made", "video_duration": float(SECONDS)})
    text = "\n".join(json.dumps(row) for row in rows)
    (folder / "samples.jsonl").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
