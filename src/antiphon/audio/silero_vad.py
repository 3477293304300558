"""Silero's voice activity detector (its ONNX file of version 5 or later), one frame of 32 ms at a time."""

from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from antiphon.audio.voice_features import GRAPH_ERRORS
from antiphon.core.errors import ConfigError

FRAME_SAMPLES = 512
RATE_HZ = 16_000
_CONTEXT_SAMPLES = 64  # of the frame before, which the model wants in front of each frame
_STATE_SHAPE = (2, 1, 128)


class SileroModel:
    """The loaded file. It has no state of its own, so every session may share it."""

    def __init__(self, path: Path) -> None:
        """Raises ConfigError if *path* is not such a file."""
        options = onnxruntime.SessionOptions()
        # A frame takes a fraction of a millisecond: more threads would only wait for each other.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        if not path.is_file():
            raise ConfigError(f"{path}: no such file; server_vad_model_path must name Silero's ONNX file")
        try:
            self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except GRAPH_ERRORS as error:
            raise ConfigError(f"{path}: not a readable ONNX file") from error
        names = {entry.name for entry in self.session.get_inputs()}
        if names != {"input", "state", "sr"}:
            raise ConfigError(f"{path}: has inputs {sorted(names)}; Silero's detector has input, sr, state")


class SileroScorer:
    """One stream's detector: gives each frame the probability that it is speech."""

    def __init__(self, model: SileroModel) -> None:
        self._session = model.session
        self._rate = np.array(RATE_HZ, np.int64)
        self.reset()

    def reset(self) -> None:
        self._state = np.zeros(_STATE_SHAPE, np.float32)
        self._context = np.zeros(_CONTEXT_SAMPLES, np.float32)

    def score(self, frame: NDArray[np.float32]) -> float:
        """*frame*: [512] float32 at 16 kHz, following the one before."""
        window = np.concatenate((self._context, frame))[None, :]
        feed = {"input": window, "state": self._state, "sr": self._rate}
        probability, self._state = self._session.run(None, feed)
        self._context = frame[-_CONTEXT_SAMPLES:]
        return float(probability[0, 0])
