"""Makes `tests/data/evals`: a few items in each format that `antiphon eval` reads.

    pip install hibari-tts        # one voice; Debian's espeak-ng is the other
    python tests/support/make_eval_data.py tests/data/evals

Errors are planted: in `recordings` the texts differ from what is said, in `flow` pieces come late and samples are cut.
"""

import io
import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pyarrow
import pyarrow.parquet
import soundfile
import soxr
from hibari import Hibari

RATE_HZ = 16_000
FPS, SECONDS = 5, 3
SAID = {
    "train": "The train to the coast leaves at half past seven.",
    "box": "She put the letters back into the blue box.",
    "rain": "We could hear the rain on the roof all night.",
    "chairs": "Please bring two chairs into the garden.",
}
VOICE_TEXT = "The old clock on the kitchen wall is always late."
# id, what is said, the text in the file, speaker
RECORDINGS = (
    ("train", "train", "The train to the coast leaves at half past seven.", "heart"),
    ("box", "box", "She put the papers back into the big blue box.", "heart"),  # one substituted, one deleted
    ("rain", "rain", "We could hear rain on the roof all night.", "heart"),  # one inserted
    ("chairs", "chairs", "Please bring 2 chairs into the garden!", "heart"),  # a number, and marks
    ("other", "rain", "We could hear the rain on the roof all night.", "espeak"),
)
QUESTIONS = (
    ("clip1", "What moves in the picture?", ["A. A bar", "B. A cat", "C. A car", "D. Nothing"], "A", "Event", "30s"),
    ("clip1", "What is heard?", ["A. A dog", "B. A tone", "C. Rain", "D. A voice"], "B", "Context", "30s"),
    ("clip2", "Which colour is the bar?", ["A. Red", "B. Blue", "C. White", "D. Green"], "C", "Event", "60s"),
)


def say(text: str, speaker: str) -> np.ndarray:
    """16 kHz samples of *text*."""
    if speaker == "heart":
        samples, rate_hz = Hibari()(text, seed=1), 24_000
    else:
        done = subprocess.run(
            ["espeak-ng", "-v", "en-us+f3", "-s", "150", "--stdout", text], check=True, capture_output=True
        )
        samples, rate_hz = soundfile.read(io.BytesIO(done.stdout), dtype="float32")
    return soxr.resample(np.asarray(samples, np.float32), rate_hz, RATE_HZ)


def write_opus(path: Path, samples: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, samples, RATE_HZ, format="OGG", subtype="OPUS")


def write_lines(path: Path, rows: list[dict[str, object]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def make_video(level: int) -> bytes:
    """Three seconds of a bar that moves, with a tone."""
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as container:
        video = container.add_stream("mpeg4", rate=FPS)
        video.width, video.height, video.pix_fmt = 64, 48, "yuv420p"
        sound = container.add_stream("aac", rate=RATE_HZ, layout="mono")
        for index in range(FPS * SECONDS):
            picture = np.zeros((48, 64, 3), np.uint8)
            picture[8:40, 3 * index : 3 * index + 8] = level
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            frame.pts, frame.time_base = index, Fraction(1, FPS)
            container.mux(video.encode(frame))
        container.mux(video.encode(None))
        frame = av.AudioFrame.from_ndarray(tone()[None], format="fltp", layout="mono")
        frame.sample_rate, frame.pts = RATE_HZ, 0
        container.mux(sound.encode(frame))
        container.mux(sound.encode(None))
    return file.getvalue()


def tone() -> np.ndarray:
    return (0.1 * np.sin(np.arange(RATE_HZ * SECONDS) * 2 * np.pi * 300 / RATE_HZ)).astype(np.float32)


def make_recordings(root: Path) -> None:
    voice = say(VOICE_TEXT, "heart")
    write_opus(root / "seed_tts" / "en" / "prompt-wavs" / "heart.ogg", voice)
    write_opus(root / "seed_tts" / "en" / "prompt-wavs" / "espeak.ogg", say(VOICE_TEXT, "espeak"))
    lines = [
        f"{name}|{VOICE_TEXT}|prompt-wavs/{speaker}.ogg|{SAID[name]}"
        for name, speaker in (("train", "heart"), ("box", "espeak"), ("rain", "heart"))
    ]
    (root / "seed_tts" / "en" / "meta.lst").write_text("\n".join(lines) + "\n", encoding="utf-8")
    rows: list[dict[str, object]] = []
    for name, said, target, speaker in RECORDINGS:
        write_opus(root / "recordings" / f"{name}.ogg", say(SAID[said], speaker))
        rows.append(
            {
                "id": name,
                "wav": f"{name}.ogg",
                "target": target,
                "reference": "../seed_tts/en/prompt-wavs/heart.ogg",
                "transcript": SAID[said],
                "recogniser": "perfect 1",
            }
        )
    write_lines(root / "recordings" / "outputs.jsonl", rows)
    chinese: list[dict[str, object]] = [
        {
            "id": "a",
            "target": "你好，世界！今天天气很好。",
            "language": "zh",
            "transcript": "你好世界今天天气真好",
            "recogniser": "perfect 1",
        },
    ]
    (root / "chinese").mkdir(parents=True, exist_ok=True)
    write_lines(root / "chinese" / "outputs.jsonl", chinese)


def make_flow(root: Path) -> None:
    """The same sentence whole, late, and broken; pieces of half a second."""
    folder = root / "flow"
    folder.mkdir(parents=True, exist_ok=True)
    whole = say(SAID["box"], "heart")
    piece = RATE_HZ // 2
    counts = [min(piece, len(whole) - begin) for begin in range(0, len(whole), piece)]
    in_time = [[round(0.2 + 0.3 * place, 3), count] for place, count in enumerate(counts)]
    late = [[at_s + (0.9 if place >= 2 else 0.0), count] for place, (at_s, count) in enumerate(in_time)]
    broken = whole.copy()
    loud = int(np.argmax(np.convolve(np.abs(whole), np.ones(800), "same")[: len(whole) - 2000]))
    broken[loud : loud + 320] = 0.0
    soundfile.write(folder / "whole.flac", whole, RATE_HZ, subtype="PCM_16")
    soundfile.write(folder / "broken.flac", broken, RATE_HZ, subtype="PCM_16")
    write_lines(
        folder / "outputs.jsonl",
        [
            {"id": "whole", "wav": "whole.flac", "arrivals": in_time},
            {"id": "late", "wav": "whole.flac", "arrivals": late},
            {"id": "broken", "wav": "broken.flac", "arrivals": in_time},
        ],
    )


def make_choices(root: Path) -> None:
    omni, mme = root / "daily_omni", root / "video_mme"
    for name, level in (("clip1", 255), ("clip2", 200)):
        folder = omni / "Videos" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}_video.mp4").write_bytes(make_video(level))
        soundfile.write(folder / f"{name}_audio.wav", tone()[::4], RATE_HZ // 4, subtype="PCM_16")
        (mme / "data").mkdir(parents=True, exist_ok=True)
        (mme / "data" / f"{name}.mp4").write_bytes(make_video(level))
    rows = [
        {"video_id": video, "Question": text, "Choice": choices, "Answer": answer, "Type": kind,
         "video_category": "Made", "video_duration": duration}
        for video, text, choices, answer, kind, duration in QUESTIONS
    ]  # fmt: skip
    (omni / "qa.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    (mme / "subtitle").mkdir(exist_ok=True)
    (mme / "subtitle" / "clip1.srt").write_text(
        "1\n00:00:00,000 --> 00:00:01,500\n<i>A bar moves.</i>\n\n2\n00:00:01,500 --> 00:00:03,000\nA tone sounds.\n"
    )
    table = [
        {"video_id": str(place), "videoID": video, "question_id": f"{place:03d}-1", "duration": duration,
         "domain": "Made", "sub_category": "Bars", "task_type": kind, "question": text, "options": choices,
         "answer": answer}
        for place, ((video, text, choices, answer, kind, _), duration) in enumerate(
            zip(QUESTIONS, ("short", "short", "long"), strict=True), start=1
        )
    ]  # fmt: skip
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(table), mme / "test.parquet")


if __name__ == "__main__":
    place = Path(sys.argv[1])
    make_recordings(place)
    make_flow(place)
    make_choices(place)
