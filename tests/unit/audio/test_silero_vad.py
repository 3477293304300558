"""Against a graph of the detector's shape: the real file is not part of the repository."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from antiphon.audio.silero_vad import SileroModel, SileroScorer
from antiphon.core.errors import ConfigError


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    """Says the largest sample of its window, and counts its calls in the state."""
    value = helper.make_tensor_value_info
    one = helper.make_tensor("one", TensorProto.FLOAT, [1], [1.0])
    nodes = [
        helper.make_node("ReduceMax", ["input"], ["output"], keepdims=1, axes=[1]),
        helper.make_node("Add", ["state", "one"], ["stateN"]),
        helper.make_node("Identity", ["sr"], ["rate"]),
    ]
    inputs = [
        value("input", TensorProto.FLOAT, [1, 576]),
        value("state", TensorProto.FLOAT, [2, 1, 128]),
        value("sr", TensorProto.INT64, []),
    ]
    outputs = [value("output", TensorProto.FLOAT, [1, 1]), value("stateN", TensorProto.FLOAT, [2, 1, 128])]
    model = helper.make_model(
        helper.make_graph(nodes, "vad", inputs, outputs, [one]), opset_imports=[helper.make_opsetid("", 13)]
    )
    model.ir_version = 8
    path = tmp_path / "vad.onnx"
    onnx.save(model, str(path))
    return path


def test_a_frame_is_heard_with_the_end_of_the_one_before(graph):
    scorer = SileroScorer(SileroModel(graph))
    frame = np.zeros(512, np.float32)
    frame[-64] = 0.75
    assert scorer.score(frame) == 0.75
    assert scorer.score(np.zeros(512, np.float32)) == 0.75
    assert scorer.score(np.zeros(512, np.float32)) == 0.0


def test_a_reset_forgets_the_stream(graph):
    scorer = SileroScorer(SileroModel(graph))
    scorer.score(np.ones(512, np.float32))
    scorer.reset()
    assert scorer.score(np.zeros(512, np.float32)) == 0.0


def test_a_missing_or_foreign_file_is_refused_by_name(tmp_path):
    with pytest.raises(ConfigError, match="server_vad_model_path"):
        SileroModel(tmp_path / "none.onnx")
    (tmp_path / "bad.onnx").write_bytes(b"no graph")
    with pytest.raises(ConfigError, match=r"bad\.onnx"):
        SileroModel(tmp_path / "bad.onnx")
