"""`antiphon generate` with the tiny model, from files to text and a WAV."""

import json
import re
import shutil
import wave
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from antiphon.cli.main import main
from antiphon.config.checkpoint_files import load_model_config
from antiphon.core.errors import CheckpointError
from antiphon.pipeline import build

SHORT = ("--max-tokens", "16", "--max-speech-tokens", "60")
SUMMARY = re.compile(r"^(.+): ([0-9.]+) s of speech.*, ([0-9]+) codec frames, RTF [0-9.]+$", re.MULTILINE)

Tone = Callable[..., NDArray[np.float32]]
Generate = Callable[..., tuple[str, str]]


@pytest.fixture
def generate(
    tiny_checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Generate:
    """Runs the command in a folder of its own, expects success, and returns stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*args: str) -> tuple[str, str]:
        code = main(["generate", str(tiny_checkpoint), "--device", "cpu", *SHORT, *args])
        shown = capsys.readouterr()
        assert code == 0, shown.err
        return shown.out, shown.err

    return run


@pytest.fixture
def media(tmp_path: Path, tone: Tone, encode_audio: Callable[..., bytes], encode_video: Callable[..., bytes]) -> Path:
    """A folder with one file of each kind."""
    for name, form, subtype in (
        ("a.wav", "WAV", "PCM_16"),
        ("a.flac", "FLAC", None),
        ("a.ogg", "OGG", "OPUS"),
        ("a.mp3", "MP3", None),
    ):
        (tmp_path / name).write_bytes(encode_audio(tone(1.3), form=form, subtype=subtype))
    stereo = np.stack((tone(2.0, 44_100), 0.5 * tone(2.0, 44_100)), axis=1)
    (tmp_path / "voice.wav").write_bytes(encode_audio(stereo, 44_100))
    (tmp_path / "sound.mp4").write_bytes(encode_video(sound=tone(2.0)))
    (tmp_path / "silent.mp4").write_bytes(encode_video())
    random = np.random.default_rng(0)
    for name, size in (("a.png", (300, 400)), ("b.png", (40, 30)), ("dot.png", (1, 1)), ("tall.png", (10_000, 20))):
        Image.fromarray(random.integers(0, 255, (*size, 3), np.uint8)).save(tmp_path / name)
    return tmp_path


def check_speech(err: str, path: Path) -> bytes:
    """The WAV is valid, and its duration is 40 ms for each codec frame reported."""
    named, duration_s, num_frames = SUMMARY.findall(err)[-1]
    assert named == str(path)
    with wave.open(str(path)) as reader:
        assert (reader.getframerate(), reader.getnchannels(), reader.getsampwidth()) == (24_000, 1, 2)
        assert reader.getnframes() == 960 * int(num_frames) > 0
        assert float(duration_s) == pytest.approx(0.04 * int(num_frames), abs=0.006)
        return reader.readframes(reader.getnframes())


@pytest.mark.parametrize(
    "args",
    [
        ["--prompt", "Hello, who are you?"],
        ["--prompt", "Hello", "--system", "Answer in verse.", "--stream"],
        ["--prompt", "What is this?", "--image", "a.png"],
        ["--prompt", "And this?", "--image", "dot.png", "--image", "tall.png"],
        ["--audio", "a.wav"],
        ["--audio", "a.flac"],
        ["--audio", "a.ogg"],
        ["--audio", "a.mp3", "--stream"],
        ["--video", "sound.mp4", "--prompt", "What happens?"],
        ["--video", "silent.mp4", "--prompt", "What happens?"],
        ["--image", "a.png", "--audio", "a.wav", "--image", "b.png", "--audio", "a.flac", "--prompt", "Compare."],
        ["--prompt", "Hello", "--ref-audio", "voice.wav"],
        ["--prompt", "Hello", "--temperature", "0.9", "--top-p", "0.9", "--top-k", "40", "--seed", "7"],
    ],
    ids=lambda args: " ".join(args).replace("--", ""),
)
def test_an_answer_is_text_and_a_wav_of_40_ms_a_code(media: Path, generate: Generate, args: list[str]) -> None:
    out, err = generate(*args, "--output", "answers/a.wav")
    assert out.strip()
    check_speech(err, Path("answers/a.wav"))
    assert [file.name for file in Path("answers").iterdir()] == ["a.wav"]


def test_text_alone_writes_no_wav_and_touches_no_part_that_speaks(
    media: Path, tiny_checkpoint: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(media)
    shutil.copytree(tiny_checkpoint, "mute", ignore=shutil.ignore_patterns("assets"))
    args = ["generate", "mute", "--device", "cpu", "--prompt", "Hello", "--image", "b.png", *SHORT]
    assert main([*args, "--modalities", "text"]) == 0
    shown = capsys.readouterr()
    assert shown.out.strip()
    assert "speech" not in shown.err
    assert not Path("output.wav").exists()
    assert main(args) == 2
    assert "token2wav" in capsys.readouterr().err


def test_the_voice_changes_the_sound_and_not_the_text(media: Path, generate: Generate) -> None:
    own, own_err = generate("--prompt", "Hello", "--output", "own.wav")
    other, other_err = generate("--prompt", "Hello", "--output", "other.wav", "--ref-audio", "voice.wav")
    assert own == other
    assert check_speech(own_err, Path("own.wav")) != check_speech(other_err, Path("other.wav"))


@pytest.mark.parametrize("mode", [[], ["--stream"]])
def test_the_same_seed_gives_the_same_text_and_sound(generate: Generate, mode: list[str]) -> None:
    def run(seed: str) -> tuple[str, bytes]:
        out, err = generate("--prompt", "Hello", "--temperature", "1", "--seed", seed, "--output", "a.wav", *mode)
        return out, check_speech(err, Path("a.wav"))

    assert run("5") == run("5")
    assert run("5") != run("6")


def test_the_order_of_media_matters(media: Path, generate: Generate) -> None:
    one, _ = generate("--image", "a.png", "--image", "b.png", "--prompt", "x", "--modalities", "text")
    other, _ = generate("--image", "b.png", "--image", "a.png", "--prompt", "x", "--modalities", "text")
    assert one != other


def test_max_tokens_is_obeyed(generate: Generate) -> None:
    _, err = generate("--prompt", "Hello", "--max-tokens", "5", "--modalities", "text")
    assert err == "the text was cut off after 5 tokens (--max-tokens)\n"


def test_each_line_of_a_file_gets_its_own_answer(media: Path, generate: Generate) -> None:
    lines = [
        {"prompt": "One", "images": ["b.png"], "output": "first.wav"},
        {"prompt": "Two", "modalities": ["text"], "sampling": {"max_tokens": 3}},
        {"messages": [{"role": "user", "content": [{"type": "audio", "audio": "a.ogg"}]}], "ref_audio": "voice.wav"},
    ]
    Path("p.jsonl").write_text("\n".join(map(json.dumps, lines)))
    out, err = generate("--jsonl", "p.jsonl", "--output", "res/a.wav")
    assert len(out.splitlines()) >= 3
    assert sorted(file.name for file in Path("res").iterdir()) == ["a-3.wav", "first.wav"]
    check_speech(err, Path("res/a-3.wav"))
    assert "cut off after 3 tokens" in err


def test_load_format_dummy_needs_only_a_configuration(tiny_checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "bare").mkdir()
    for name in ("config.json", "preprocessor_config.json", "tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "bare" / name).write_bytes((tiny_checkpoint / name).read_bytes())
    assert load_model_config(tmp_path / "bare")
    args = ["generate", str(tmp_path / "bare"), "--prompt", "x", "--max-tokens", "4", "--modalities", "text"]
    assert main([*args, "--load-format", "dummy", "--device", "cpu"]) == 0
    with pytest.raises(CheckpointError):
        build.build_omni_model(tmp_path / "bare", device=build.torch.device("cpu"))
