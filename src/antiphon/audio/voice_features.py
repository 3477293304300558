"""Makes the features of a reference voice from a recording: codec ids, speaker vector, mel.

Model specification, section 4.1. The two networks run as the checkpoint's own ONNX graphs.
"""

from functools import cached_property
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnxruntime.capi import onnxruntime_pybind11_state as errors

from antiphon.audio.decode import load_reference_voice, prepare_voice
from antiphon.audio.fbank import centred_fbank
from antiphon.audio.mel import SAMPLE_RATE_HZ as TOKENIZER_RATE_HZ
from antiphon.audio.mel import Floor, log_mel
from antiphon.audio.s3_windows import join_codes, window_spans
from antiphon.audio.sinc_resample import sinc_resample
from antiphon.audio.source import MediaSource, source_name
from antiphon.audio.voice import VoiceFeatures
from antiphon.audio.voice_mel import SAMPLE_RATE_HZ as VOCODER_RATE_HZ
from antiphon.audio.voice_mel import fit_frames, voice_mel
from antiphon.core.errors import CheckpointError, MediaError

TOKENIZER_FILE = "speech_tokenizer_v2_25hz.onnx"
SPEAKER_FILE = "campplus.onnx"
NUM_TOKENIZER_BINS = 128
FRAMES_PER_CODE = 2  # of the vocoder's mel
MAX_REFERENCE_S = 17.0  # the reference's attention buffers hold 1,000 frames, of which a stream needs 150
SILENCE_PEAK = 1e-4  # −80 dBFS
# What onnxruntime raises for a file that is no graph, or one it cannot run; the classes have no common parent.
GRAPH_ERRORS = (
    errors.Fail,
    errors.InvalidArgument,
    errors.InvalidGraph,
    errors.InvalidProtobuf,
    errors.NotImplemented,
    errors.RuntimeException,
)


class VoiceFrontEnd:
    """The reference-voice networks of one checkpoint; each graph is loaded when it is first needed.

    Invariant: everything runs on the CPU, and the same recording always gives the same features.
    """

    def __init__(self, folder: Path, *, max_reference_s: float = MAX_REFERENCE_S) -> None:
        """*folder*: the checkpoint's `assets/token2wav`."""
        self.folder = folder
        self.max_reference_s = max_reference_s

    def prepare(self, reference: MediaSource | tuple[NDArray[np.float32], int]) -> VoiceFeatures:
        """Features of a recording: a file, its bytes, or samples [channels, N] in [−1, 1] with their rate in Hz.

        Raises:
            MediaError: the recording cannot be decoded, is silent, too short, too long, or not a number.
            CheckpointError: a graph is missing or not what it should be.
        """
        if isinstance(reference, tuple):
            name, (raw, rate_hz) = "reference voice", reference
            samples = prepare_voice(raw, rate_hz, name)
        else:
            name = source_name(reference, "reference voice")
            samples, rate_hz = load_reference_voice(reference)
        self._check(samples, rate_hz, name)
        # Trap: codec ids and speaker vector hear the first channel only, the mel hears the mean of all.
        first = sinc_resample(samples[0], rate_hz, TOKENIZER_RATE_HZ)
        mixed = sinc_resample(samples.mean(axis=0), rate_hz, VOCODER_RATE_HZ)
        codes = self.codes(log_mel(first, floor=Floor.DYNAMIC, num_bins=NUM_TOKENIZER_BINS))
        return VoiceFeatures(
            codes=codes,
            xvector=self.xvector(centred_fbank(first, TOKENIZER_RATE_HZ)),
            mel=fit_frames(voice_mel(mixed), FRAMES_PER_CODE * len(codes)),
        )

    def codes(self, mel: NDArray[np.float32]) -> NDArray[np.int64]:
        """Codec ids [Np] of a log-mel [128, M] at 100 Hz; over 30 s in windows."""
        return join_codes([self._tokenize(mel[:, start:end]) for start, end in window_spans(mel.shape[1])])

    def xvector(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Speaker vector [192] of centred filter banks [T, 80]."""
        graph = self._speaker
        (vector,) = graph.run(None, {graph.get_inputs()[0].name: features[None]})[:1]
        return np.asarray(vector, dtype=np.float32).reshape(-1)

    def _check(self, samples: NDArray[np.float32], rate_hz: int, name: str) -> None:
        duration_s = samples.shape[1] / rate_hz
        if duration_s > self.max_reference_s:
            raise MediaError(
                f"{name}: is {duration_s:.2f} s long; a reference voice may have {self.max_reference_s:g} s at most "
                "(3 to 10 s are best): cut it"
            )
        for what, heard in (("its first channel", samples[0]), ("the mean of its channels", samples.mean(axis=0))):
            if np.abs(heard).max() < SILENCE_PEAK:
                raise MediaError(f"{name}: {what} is silent; give a recording of someone speaking")

    def _tokenize(self, mel: NDArray[np.float32]) -> NDArray[np.int64]:
        graph = self._tokenizer
        feeds: dict[str, NDArray[np.generic]] = {}
        for entry in graph.get_inputs():
            is_mel = len(entry.shape) == 3
            length_type = np.int64 if entry.type == "tensor(int64)" else np.int32
            feeds[entry.name] = mel[None] if is_mel else np.array([mel.shape[1]], dtype=length_type)
        (codes,) = graph.run(None, feeds)[:1]
        return np.asarray(codes, dtype=np.int64).reshape(-1)

    @cached_property
    def _tokenizer(self) -> onnxruntime.InferenceSession:
        return self._load(TOKENIZER_FILE, {3, 1})

    @cached_property
    def _speaker(self) -> onnxruntime.InferenceSession:
        return self._load(SPEAKER_FILE, {3})

    def _load(self, file: str, input_ranks: set[int]) -> onnxruntime.InferenceSession:
        path = self.folder / file
        if not path.is_file():
            raise CheckpointError(f"{path}: no such file; reference voices need it")
        try:
            graph = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        except GRAPH_ERRORS as error:
            raise CheckpointError(f"{path}: not a usable ONNX graph: {error}".replace("\n", " ")) from None
        ranks = {len(entry.shape) for entry in graph.get_inputs()}
        if ranks != input_ranks:
            raise CheckpointError(f"{path}: its inputs have ranks {sorted(ranks)}, expected {sorted(input_ranks)}")
        return graph
