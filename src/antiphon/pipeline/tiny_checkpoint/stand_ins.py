"""Small ONNX graphs under the file names, input and output names and shapes of the two voice models."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from antiphon.pipeline.tiny_checkpoint.values import default_value

_IR_VERSION, _OPSET = 8, 18  # old enough for every onnxruntime we admit
_NUM_MELS, _CHANNELS, _NUM_DIGITS = 128, 8, 8
_FBANK_BINS, _SPEAKER_SIZE = 80, 192


def write_speech_tokenizer(path: Path, seed: int) -> None:
    """Log-mel [B, 128, T] and lengths [B] int32 → codec ids [B, N] int32, N by two convolutions of stride 2.

    Frames beyond a clip's length count as silence. The codes are eight ternary digits, as in the real model.
    """
    conv = {"kernel_shape": [3], "strides": [2], "pads": [1, 1]}
    nodes = [
        _node("Shape", ["feats"], "time", start=2, end=3),
        _node("Squeeze", ["time"], "num_frames"),
        _node("Range", ["zero", "num_frames", "one"], "frame"),
        _node("Cast", ["feats_length"], "length", to=TensorProto.INT64),
        _node("Unsqueeze", ["length", "axis_one"], "length_column"),
        _node("Less", ["frame", "length_column"], "is_inside"),
        _node("Cast", ["is_inside"], "mask", to=TensorProto.FLOAT),
        _node("Unsqueeze", ["mask", "axis_one"], "mask_row"),
        _node("Mul", ["feats", "mask_row"], "masked"),
        _node("Conv", ["masked", "conv1.weight", "conv1.bias"], "conv1", **conv),
        _node("Relu", ["conv1"], "active1"),
        _node("Conv", ["active1", "conv2.weight", "conv2.bias"], "conv2", **conv),
        _node("Relu", ["conv2"], "active2"),
        _node("Conv", ["active2", "project_down.weight", "project_down.bias"], "projected", kernel_shape=[1]),
        _node("Tanh", ["projected"], "bounded"),
        _node("Mul", ["bounded", "below_one"], "scaled"),
        _node("Round", ["scaled"], "rounded"),
        _node("Add", ["rounded", "one_float"], "digits"),
        _node("Mul", ["digits", "powers"], "weighted"),
        _node("ReduceSum", ["weighted", "axis_one"], "code", keepdims=0),
        _node("Cast", ["code"], "indices", to=TensorProto.INT32),
    ]
    shapes = {
        "conv1.weight": (_CHANNELS, _NUM_MELS, 3),
        "conv1.bias": (_CHANNELS,),
        "conv2.weight": (_CHANNELS, _CHANNELS, 3),
        "conv2.bias": (_CHANNELS,),
        "project_down.weight": (_NUM_DIGITS, _CHANNELS, 1),
        "project_down.bias": (_NUM_DIGITS,),
    }
    constants: dict[str, NDArray[Any]] = {
        name: default_value(seed, f"s3.{name}", shape) for name, shape in shapes.items()
    }
    constants["conv1.weight"] *= np.float32(3.0)  # log-mels move little; the codes should follow them
    constants["project_down.weight"] *= np.float32(3.0)
    constants |= {
        "zero": np.array(0, np.int64),
        "one": np.array(1, np.int64),
        "axis_one": np.array([1], np.int64),
        "below_one": np.array(0.9990000128746033, np.float32),
        "one_float": np.array(1.0, np.float32),
        "powers": (3.0 ** np.arange(_NUM_DIGITS)).astype(np.float32).reshape(1, _NUM_DIGITS, 1),
    }
    inputs = [
        helper.make_tensor_value_info("feats", TensorProto.FLOAT, ["B", _NUM_MELS, "T"]),
        helper.make_tensor_value_info("feats_length", TensorProto.INT32, ["B"]),
    ]
    outputs = [helper.make_tensor_value_info("indices", TensorProto.INT32, ["B", "N"])]
    _save(path, helper.make_graph(nodes, "speech_tokenizer", inputs, outputs, _initializers(constants)))


def write_speaker_encoder(path: Path, seed: int) -> None:
    """Filter bank [B, T, 80] → voice vector [B, 192]: a projection of the mean and of the mean loudness of each bin."""
    nodes = [
        _node("ReduceMean", ["input", "axis_one"], "mean", keepdims=0),
        _node("Mul", ["input", "input"], "square"),
        _node("ReduceMean", ["square", "axis_one"], "power", keepdims=0),
        _node("Sqrt", ["power"], "loudness"),
        _node("Concat", ["mean", "loudness"], "statistics", axis=1),
        _node("Gemm", ["statistics", "weight", "bias"], "output"),
    ]
    constants: dict[str, NDArray[Any]] = {
        # Filter-bank values reach ±10; the vector is normalised later, its direction counts.
        "weight": default_value(seed, "campplus.weight", (_FBANK_BINS * 2, _SPEAKER_SIZE)),
        "bias": default_value(seed, "campplus.bias", (_SPEAKER_SIZE,)),
        "axis_one": np.array([1], np.int64),
    }
    inputs = [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["B", "T", _FBANK_BINS])]
    outputs = [helper.make_tensor_value_info("output", TensorProto.FLOAT, ["B", _SPEAKER_SIZE])]
    _save(path, helper.make_graph(nodes, "speaker_encoder", inputs, outputs, _initializers(constants)))


def _node(operator: str, inputs: list[str], output: str, **attributes: Any) -> NodeProto:
    return helper.make_node(operator, inputs, [output], name=output, **attributes)


def _initializers(constants: dict[str, NDArray[Any]]) -> list[TensorProto]:
    return [numpy_helper.from_array(value, name) for name, value in constants.items()]


def _save(path: Path, graph: GraphProto) -> None:
    model: ModelProto = helper.make_model(
        graph, ir_version=_IR_VERSION, opset_imports=[helper.make_opsetid("", _OPSET)], producer_name="antiphon"
    )
    path.write_bytes(model.SerializeToString(deterministic=True))
