import json
import shutil
from pathlib import Path

import pytest
import torch

from antiphon.core.errors import CheckpointError, ConfigError
from antiphon.pipeline.build import build_omni_model

CPU = torch.device("cpu")


def test_a_folder_becomes_a_model(tiny_checkpoint: Path) -> None:
    model = build_omni_model(tiny_checkpoint, device=CPU)
    assert model.folder == tiny_checkpoint
    assert model.talker is not None
    assert model.tokenizer.vocab_size == model.config.vocab_size
    assert model.thinker.llm.lm_head.weight.dtype == torch.float32


def test_text_only_leaves_the_speech_stages_out(tiny_checkpoint: Path) -> None:
    model = build_omni_model(tiny_checkpoint, device=CPU, with_speech=False)
    assert (model.talker, model.code2wav) == (None, None)


def test_a_tokenizer_of_another_model_is_refused(tiny_checkpoint: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_checkpoint, tmp_path / "copy"))
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(config | {"vocab_size": 500}), encoding="utf-8")
    with pytest.raises(CheckpointError, match="the two files are from different models"):
        build_omni_model(folder, device=CPU)


def test_dummy_needs_no_file_but_a_config(tiny_checkpoint: Path, tmp_path: Path) -> None:
    shutil.copy(tiny_checkpoint / "config.json", tmp_path)
    model = build_omni_model(tmp_path, device=CPU, load_format="dummy", with_speech=False)
    assert model.folder is None
    assert model.tokenizer.encode("hi")
    assert model.image_config.max_slices == 9


def test_dummy_takes_a_folders_tokenizer_if_there_is_one(tiny_checkpoint: Path) -> None:
    model = build_omni_model(tiny_checkpoint, device=CPU, load_format="dummy", with_speech=False)
    assert model.tokenizer.bad_ids


def test_dummy_refuses_a_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no such folder"):
        build_omni_model(str(tmp_path / "nowhere"), device=CPU, load_format="dummy")


def test_an_unknown_load_format_is_refused(tiny_checkpoint: Path) -> None:
    with pytest.raises(ConfigError, match="load_format is 'gguf'; known: auto, dummy"):
        build_omni_model(tiny_checkpoint, device=CPU, load_format="gguf")  # type: ignore[arg-type]
