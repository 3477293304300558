"""What crosses the boundaries between front and stages: one frozen type per message.

Every message names its request and the epoch it was made for; a receiver drops what is stale. Fields are words,
numbers, tuples of numbers, `SamplingParams`, numpy arrays and tensors, so a connector can send the words as control
data and each array as a raw frame with dtype and shape. In one process the same objects are handed over as they are.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from antiphon.core.handoff import Handoff
from antiphon.core.outputs import FinishReason
from antiphon.core.sampling import SamplingParams
from antiphon.engine.device_stream import Fence

# --- to the stages ---


@dataclass(frozen=True, kw_only=True)
class ImageInput:
    """One picture or slice and the rows it replaces."""

    start: int  # first position of the prompt
    num_rows: int
    strip: NDArray[np.float32]  # [3, P, P·L] pixels
    grid: tuple[int, int]  # rows and columns of patches
    digest: bytes  # of pixels and shape


@dataclass(frozen=True, kw_only=True)
class AudioInput:
    """All clips of a request. They are one input, because their common padding shows in the rows of each."""

    spans: tuple[tuple[int, int], ...]  # half-open spans of the prompt's positions; the joined rows fill them in order
    mels: tuple[NDArray[np.float32], ...]  # each [num_mel_bins, n]
    digest: bytes  # of all features and their shapes


@dataclass(frozen=True, kw_only=True)
class ThinkerRequest:
    """A prompt to answer."""

    request_id: str
    epoch: int
    ids: tuple[int, ...]
    images: tuple[ImageInput, ...]
    audio: AudioInput | None
    sampling: SamplingParams
    seed: int
    handoff: Handoff | None  # None: the answer is not spoken
    deadline_s: float  # on the device loop's clock


@dataclass(frozen=True, kw_only=True)
class TalkerRequest:
    """A turn to speak, in pieces that follow."""

    request_id: str
    epoch: int
    handoff: Handoff
    sampling: SamplingParams
    seed: int
    deadline_s: float


@dataclass(frozen=True, kw_only=True)
class VoiceRequest:
    """A stream of speech in one voice. The voice comes along: the stage may have dropped it since its last use."""

    request_id: str
    epoch: int
    voice_key: str
    voice_codes: NDArray[np.int64]  # [Np]
    voice_xvector: NDArray[np.float32]  # [192]
    voice_mel: NDArray[np.float32]  # [2 · Np, mel]
    seed: int
    deadline_s: float


@dataclass(frozen=True, kw_only=True)
class Abort:
    """The request is over for everyone; unknown ones are ignored."""

    request_id: str
    epoch: int


StageRequest = ThinkerRequest | TalkerRequest | VoiceRequest
Command = StageRequest | Abort


# --- from stage to stage ---


@dataclass(frozen=True, kw_only=True)
class SpokenPiece:
    """Thinker to Talker: tokens to speak and the hidden row of each. `is_last`: nothing follows; may then be empty."""

    request_id: str
    epoch: int
    ids: tuple[int, ...]
    rows: Tensor  # [len(ids), hidden] on the Thinker's device
    is_last: bool
    ready: Fence | None = None  # within one process: when the rows are complete


@dataclass(frozen=True, kw_only=True)
class CodecChunk:
    """Talker to Code2Wav: what the vocoder takes in one call. Unless `is_last` the final 3 ids are look-ahead only.

    Without ids the chunk is the last and says that nothing is voiced (any more).
    """

    request_id: str
    epoch: int
    codes: tuple[int, ...]
    is_last: bool


StagePiece = SpokenPiece | CodecChunk


# --- from the stages to the front ---


@dataclass(frozen=True, kw_only=True)
class TextTokens:
    """Tokens drawn since the last message, without the terminator."""

    request_id: str
    epoch: int
    ids: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class TextEnd:
    """No more tokens."""

    request_id: str
    epoch: int
    reason: FinishReason
    stop_id: int | None  # the terminator that was drawn
    num_cached_tokens: int  # of the prompt, found in the prefix cache


@dataclass(frozen=True, kw_only=True)
class DrawnCodes:
    """Codec ids drawn since the last message; 40 ms of speech each."""

    request_id: str
    epoch: int
    codes: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class SpeechEnd:
    """No more codec ids. `reason` None: there was nothing to speak."""

    request_id: str
    epoch: int
    reason: FinishReason | None


@dataclass(frozen=True, kw_only=True)
class SpeechSamples:
    """The next samples, 24 kHz mono; after `is_last` none follow. May be empty then."""

    request_id: str
    epoch: int
    samples: NDArray[np.float32]  # [N]
    is_last: bool


@dataclass(frozen=True, kw_only=True)
class RequestFailed:
    """A stage gave this request up; its neighbours are not concerned."""

    request_id: str
    epoch: int
    stage: str
    code: str  # of the exception tree
    message: str


@dataclass(frozen=True, kw_only=True)
class WorkerDied:
    """The device loop ended by an error: every request with a stage in it is over."""

    stages: tuple[str, ...]
    message: str


RequestOutput = TextTokens | TextEnd | DrawnCodes | SpeechEnd | SpeechSamples | RequestFailed
StageOutput = StagePiece | RequestOutput
FrontMessage = RequestOutput | WorkerDied
MESSAGES = (
    *(ThinkerRequest, TalkerRequest, VoiceRequest, Abort, SpokenPiece, CodecChunk),
    *(TextTokens, TextEnd, DrawnCodes, SpeechEnd, SpeechSamples, RequestFailed, WorkerDied),
)
