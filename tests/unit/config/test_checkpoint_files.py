from pathlib import Path

import pytest

from antiphon.config.checkpoint_files import (
    load_image_config,
    load_model_config,
    read_json_object,
    shipped_image_config,
    shipped_model_config,
)
from antiphon.config.flow_files import FLOW_YAML, read_flow_config, shipped_flow_config
from antiphon.core.errors import CheckpointError


def test_an_absent_folder_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"nowhere: no such folder; give the folder"):
        load_model_config(tmp_path / "nowhere")


def test_a_file_is_not_a_folder(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"model\.bin: is a file"):
        load_model_config(tmp_path / "model.bin")


def test_a_folder_without_a_config_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"has no config\.json"):
        load_model_config(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", r"config\.json: not valid JSON \(line 1"),
        (b"[]", r"config\.json: holds list, expected a JSON object"),
        (b"\xff\xfe", r"config\.json: not UTF-8 text"),
    ],
)
def test_a_damaged_config_says_what_is_wrong(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(CheckpointError, match=message):
        load_model_config(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"architectures": ["MiniCPMO"], "version": "2.6"}', "version is '2.6'"),
        ('{"architectures": ["MiniCPMO"]}', "version is None"),
        ('{"architectures": ["Qwen3ForCausalLM"]}', "only \\['MiniCPMO'\\] is supported"),
    ],
)
def test_another_model_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "config.json").write_text(content, encoding="utf-8")
    with pytest.raises(CheckpointError, match=message):
        load_model_config(tmp_path)


def test_a_missing_preprocessor_config_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"preprocessor_config\.json: no such file"):
        load_image_config(tmp_path)


def test_a_folder_in_the_place_of_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="cannot be read"):
        read_json_object(tmp_path)


def test_the_shipped_values_are_those_of_the_real_model() -> None:
    config, image, flow = shipped_model_config(), shipped_image_config(), shipped_flow_config()
    assert (config.vocab_size, config.llm.num_layers, config.talker.num_codec_ids) == (151_748, 36, 6562)
    assert (image.max_slices, flow.dit.depth, flow.encoder.num_blocks) == (9, 16, 6)


def test_a_missing_flow_yaml_says_that_text_works_without_it(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"flow\.yaml: no such file; speech needs it"):
        read_flow_config(tmp_path)


def test_constructor_tags_of_flow_yaml_never_run(tmp_path: Path, tiny_checkpoint: Path) -> None:
    path = tmp_path / FLOW_YAML
    path.parent.mkdir(parents=True)
    trace = tmp_path / "trace"
    text = (tiny_checkpoint / FLOW_YAML).read_text(encoding="utf-8")
    path.write_text(
        f"touched: !!python/object/apply:os.mkdir ['{trace}']\nother: !apply:os.mkdir ['{trace}']\n{text}",
        encoding="utf-8",
    )
    with pytest.raises(CheckpointError, match="not valid YAML"):  # a Python tag has no place in the file at all
        read_flow_config(tmp_path)
    path.write_text(f"other: !apply:os.mkdir ['{trace}']\n{text}", encoding="utf-8")
    assert read_flow_config(tmp_path).num_codec_ids == 6561
    assert not trace.exists()
