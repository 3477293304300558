"""Bad input to `antiphon generate`: one clear line, exit code 2, nothing half-written."""

import io
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from antiphon.cli.main import main


@pytest.fixture
def files(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tone: Callable[..., NDArray[np.float32]],
    encode_audio: Callable[..., bytes],
    encode_video: Callable[..., bytes],
) -> Path:
    """A folder of inputs that cannot be used."""
    png = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)).save(png, "PNG")
    wav = encode_audio(tone())
    contents = {
        "text.png": b"this is no picture",
        "truncated.png": png.getvalue()[:4000],
        "empty.png": b"",
        "empty.wav": b"",
        "header.wav": wav[:44],
        "nan.wav": encode_audio(np.full(16_000, np.nan, np.float32), subtype="FLOAT"),
        "50ms.wav": encode_audio(tone(0.05)),
        "10min.flac": encode_audio(np.zeros(16_000 * 600, np.int16), form="FLAC"),
        "zero_rate.wav": wav[:24] + struct.pack("<I", 0) + wav[28:],
        "tiny_sizes.wav": wav[:40] + struct.pack("<I", 100) + wav[44:],
        "noise.wav": b"RIFFxxxxWAVE" + bytes(range(256)),
        "no_frames.mkv": encode_video(seconds=0, container="matroska"),
        "sound_only.mp4": encode_audio(tone(), form="OGG"),
        "noise.mp4": b"\0\0\0\x18ftypmp42" + bytes(500),
        "bad.jsonl": b'{"prompt": "fine"}\n{"prompt": "x", "sampling": {"temperatur": 1}}\n',
        "bad_media.jsonl": b'{"prompt": "fine"}\n\n{"images": ["text.png"]}\n',
    }
    folder = tmp_path / "in"
    folder.mkdir()
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    monkeypatch.chdir(folder)
    return folder


CASES = [
    (["--image", "absent.png"], "absent.png: No such file"),
    (["--image", "."], "is a folder"),
    (["--image", "text.png"], "text.png: is not an image"),
    (["--image", "truncated.png"], "truncated.png: the image is damaged or truncated"),
    (["--image", "empty.png"], "empty.png: is empty (0 bytes)"),
    (["--audio", "absent.wav"], "absent.wav: No such file"),
    (["--audio", "empty.wav"], "empty.wav: is empty (0 bytes)"),
    (["--audio", "header.wav"], "header.wav: is empty (no samples)"),
    (["--audio", "nan.wav"], "nan.wav: contains NaN"),
    (["--audio", "50ms.wav"], "50ms.wav: is 0.050 s long; at least 0.1 s"),
    (["--audio", "10min.flac"], "10min.flac: is longer than 300 s"),
    (["--audio", "zero_rate.wav"], "zero_rate.wav: "),
    (["--audio", "tiny_sizes.wav"], "tiny_sizes.wav: is 0.003 s long"),
    (["--audio", "noise.wav"], "noise.wav: "),
    (["--audio", "text.png"], "text.png: cannot be decoded"),
    (["--video", "absent.mp4"], "absent.mp4: No such file"),
    (["--video", "no_frames.mkv"], "no_frames.mkv: "),
    (["--video", "sound_only.mp4"], "sound_only.mp4: holds no video"),
    (["--video", "noise.mp4"], "noise.mp4: "),
    (["--ref-audio", "absent.wav"], "absent.wav: No such file"),
    (["--ref-audio", "50ms.wav"], "0.5 to 30 s"),
    (["--ref-audio", "nan.wav"], "nan.wav: contains NaN"),
    (["--prompt", "word " * 50_000], "the model's context"),
    (["--max-tokens", "40960"], "set max_tokens to at most"),
    (["--max-tokens", "5000"], "the talker can speak at most"),
    (["--max-tokens", "0"], "max_tokens is 0"),
    (["--max-tokens", "1000000000"], "max_tokens is 1000000000"),
    (["--max-tokens", "five"], "Invalid value for '--max-tokens'"),
    (["--max-speech-tokens", "0"], "--max-speech-tokens"),
    (["--temperature", "-1"], "temperature is -1.0"),
    (["--temperature", "nan"], "temperature is nan"),
    (["--temperature", "1e308"], "temperature is 1e+308"),
    (["--top-p", "1.5"], "top_p is 1.5"),
    (["--top-k", "-5"], "top_k is -5"),
    (["--repetition-penalty", "0"], "repetition_penalty is 0.0"),
    (["--seed", str(2**70)], "seed is"),
    (["--min-q", "1"], "No such option: --min-q"),
    (["--modalities", "text,video"], "modalities holds 'video'; known: text, audio"),
    (["--modalities", ""], "modalities is []"),
    (["--max-slices", "0"], "max_slice_nums is 0"),
    (["--jsonl", "absent.jsonl"], "absent.jsonl: No such file"),
    (["--device", "abacus"], "device is 'abacus'"),
    (["--dtype", "int8"], "dtype is 'int8'"),
    (["--load-format", "gguf"], "load_format is 'gguf'"),
]


def refuse(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert main(["generate", *args]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("antiphon: error: ")
    assert shown.err.count("\n") == 1
    assert len(shown.err) < 400
    return shown.err


@pytest.mark.parametrize(("args", "reason"), CASES, ids=[" ".join(args)[:40] for args, _ in CASES])
def test_bad_input_is_one_line_and_nothing_is_written(
    files: Path,
    tiny_checkpoint: Path,
    capsys: pytest.CaptureFixture[str],
    args: list[str],
    reason: str,
) -> None:
    before = sorted(files.parent.rglob("*"))
    prompt = () if "--jsonl" in args or "--prompt" in args else ("--prompt", "x")
    error = refuse(capsys, str(tiny_checkpoint), "--device", "cpu", *prompt, "--output", "../out/a.wav", *args)
    assert reason in error
    assert sorted(files.parent.rglob("*")) == before


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (["--jsonl", "bad.jsonl"], "bad.jsonl:2: unknown sampling field 'temperatur'; did you mean 'temperature'?"),
        (["--jsonl", "bad_media.jsonl"], "bad_media.jsonl:3: text.png: is not an image"),
        (["--jsonl", "bad.jsonl", "--prompt", "x"], "--jsonl brings its own prompts"),
        ([], "nothing to answer"),
        (["--prompt", "x", "--output", "."], "only WAV files are written"),
        (["--prompt", "x", "--output", "a.mp3"], "only WAV files are written"),
        (["--prompt", "x", "--output", "text.png/a.wav"], "nothing can be written"),
        (["--prompt", "x\udcff"], "not valid Unicode"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_before_the_model_is_loaded(
    files: Path, capsys: pytest.CaptureFixture[str], args: list[str], reason: str
) -> None:
    assert reason in refuse(capsys, "/no/such/model", *args)


@pytest.mark.parametrize("model", ["/no/such/model", "in", "text.png"])
def test_a_model_that_is_none_is_refused(files: Path, capsys: pytest.CaptureFixture[str], model: str) -> None:
    assert model in refuse(capsys, model, "--prompt", "x") or model == "in"
