import json
import wave
from hashlib import sha256
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

from antiphon.audio.voice_features import VoiceFrontEnd
from antiphon.config.checkpoint_files import TOKEN2WAV, load_model_config
from antiphon.core.errors import CheckpointError
from antiphon.offline.inspect import inspect_checkpoint
from antiphon.pipeline.tiny_checkpoint.checkpoint import make_tiny
from antiphon.prompt.special_tokens import ADDED_TOKENS
from antiphon.prompt.tokenizer import Tokenizer

FILES = {
    "config.json",
    "preprocessor_config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.json",
    "merges.txt",
    "added_tokens.json",
    "special_tokens_map.json",
    "model-00001-of-00002.safetensors",
    "model-00002-of-00002.safetensors",
    "model.safetensors.index.json",
    "assets/HT_ref_audio.wav",
    "assets/token2wav/flow.pt",
    "assets/token2wav/flow.yaml",
    "assets/token2wav/hift.pt",
    "assets/token2wav/speech_tokenizer_v2_25hz.onnx",
    "assets/token2wav/campplus.onnx",
}


def digests(folder: Path) -> dict[str, str]:
    return {
        str(file.relative_to(folder)): sha256(file.read_bytes()).hexdigest()
        for file in folder.rglob("*")
        if file.is_file()
    }


def test_every_file_of_the_real_layout_is_there_in_under_10_mb(tiny_checkpoint: Path) -> None:
    assert set(digests(tiny_checkpoint)) == FILES
    assert sum((tiny_checkpoint / file).stat().st_size for file in FILES) < 10_000_000
    assert all((tiny_checkpoint / file).stat().st_mode & 0o444 == 0o444 for file in FILES)


def test_the_same_seed_gives_the_same_bytes(tiny_checkpoint: Path, tmp_path: Path) -> None:
    make_tiny(tmp_path / "again", seed=0)
    assert digests(tmp_path / "again") == digests(tiny_checkpoint)


def test_another_seed_gives_another_model_of_the_same_layout(tiny_checkpoint: Path, tmp_path: Path) -> None:
    make_tiny(tmp_path / "other", seed=1)
    first, other = digests(tiny_checkpoint), digests(tmp_path / "other")
    assert set(first) == set(other)
    assert first["model-00001-of-00002.safetensors"] != other["model-00001-of-00002.safetensors"]
    assert first["tokenizer.json"] == other["tokenizer.json"]


def test_what_was_made_is_complete(tiny_checkpoint: Path) -> None:
    assert inspect_checkpoint(tiny_checkpoint).is_complete


def test_a_folder_with_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(CheckpointError, match="already exists and is not an empty folder"):
        make_tiny(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]


def test_an_interrupted_run_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("antiphon.pipeline.tiny_checkpoint.checkpoint.write_voice", interrupt)
    with pytest.raises(KeyboardInterrupt):
        make_tiny(tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_special_tokens_follow_the_ordinary_ones_in_the_real_order(tiny_checkpoint: Path) -> None:
    tokenizer, config = Tokenizer.load(tiny_checkpoint), load_model_config(tiny_checkpoint)
    first = tokenizer.id(ADDED_TOKENS[0])
    assert [tokenizer.id(token) for token in ADDED_TOKENS] == list(range(first, config.vocab_size))
    assert tokenizer.special.unk < first
    assert tokenizer.special.slash_s < first
    assert config.talker.audio_bos_id == tokenizer.id("<focus>")
    assert config.talker.text_eos_id == tokenizer.id("</perception>")
    assert config.talker.num_text_ids > config.vocab_size
    assert config.eos_token_id == tokenizer.special.im_end


@pytest.mark.parametrize(
    "text", ["Hello there, how are you?", "你好，世界", "naïve café 🎈\n\ttabs", "<|not a token|>"]
)
def test_any_text_survives_the_tokenizer(tiny_checkpoint: Path, text: str) -> None:
    tokenizer = Tokenizer.load(tiny_checkpoint)
    assert tokenizer.decode(tokenizer.encode_plain(text), skip_special=False) == text
    assert len(tokenizer.encode_plain(" the voice")) == 2


def test_bad_ids_are_broken_characters_and_brackets(tiny_checkpoint: Path) -> None:
    tokenizer = Tokenizer.load(tiny_checkpoint)
    vocabulary = json.loads((tiny_checkpoint / "vocab.json").read_text(encoding="utf-8"))
    assert {vocabulary["("], vocabulary[")"], vocabulary["Ć"]} <= set(tokenizer.bad_ids)
    assert vocabulary["Ġthe"] not in tokenizer.bad_ids
    assert max(tokenizer.bad_ids) < tokenizer.special.endoftext


@pytest.mark.parametrize("num_frames", [1, 2, 3, 4, 5, 100, 613])
def test_the_stand_in_tokenizer_has_the_real_ones_interface(tiny_checkpoint: Path, num_frames: int) -> None:
    session = onnxruntime.InferenceSession(str(tiny_checkpoint / TOKEN2WAV / "speech_tokenizer_v2_25hz.onnx"))
    mel = np.random.default_rng(0).standard_normal((1, 128, num_frames)).astype(np.float32)
    (codes,) = session.run(["indices"], {"feats": mel, "feats_length": np.array([num_frames], np.int32)})
    halved = (num_frames - 1) // 2 + 1
    assert codes.shape == (1, (halved - 1) // 2 + 1)
    assert codes.dtype == np.int32
    assert 0 <= codes.min() <= codes.max() <= 6560


def test_the_stand_in_tokenizer_ignores_what_lies_beyond_a_clip(tiny_checkpoint: Path) -> None:
    session = onnxruntime.InferenceSession(str(tiny_checkpoint / TOKEN2WAV / "speech_tokenizer_v2_25hz.onnx"))
    mel = np.random.default_rng(0).standard_normal((2, 128, 40)).astype(np.float32)
    lengths = np.array([40, 20], np.int32)
    (before,) = session.run(None, {"feats": mel, "feats_length": lengths})
    mel[1, :, 20:] = 9.0
    (after,) = session.run(None, {"feats": mel, "feats_length": lengths})
    assert np.array_equal(before, after)


def test_the_reference_voice_goes_through_the_front_end(tiny_checkpoint: Path) -> None:
    path = tiny_checkpoint / "assets" / "HT_ref_audio.wav"
    with wave.open(str(path)) as file:
        assert (file.getnchannels(), file.getframerate()) == (1, 16_000)
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    assert 8_000 < np.abs(samples).max() < 32_767
    voice = VoiceFrontEnd(tiny_checkpoint / TOKEN2WAV).prepare(path)
    assert len(set(voice.codes.tolist())) > 3
    assert np.isfinite(voice.xvector).all()
    assert voice.xvector.shape == (192,)


def test_weights_are_stored_in_the_real_types(tiny_checkpoint: Path) -> None:
    report = inspect_checkpoint(tiny_checkpoint)
    assert {part.name: part.dtypes for part in report.parts}["talker"] == ("bfloat16",)
    flow = torch.load(tiny_checkpoint / TOKEN2WAV / "flow.pt", weights_only=True)
    assert {value.dtype for value in flow.values()} == {torch.float32}
