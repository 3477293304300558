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
from antiphon.engine.context_window import WindowConfig
from antiphon.engine.device_stream import Fence
from antiphon.engine.duplex_decision import DecisionSampling

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
    given: tuple[int, ...] = ()  # the answer itself: forwarded and spoken as it is, none is drawn
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


@dataclass(frozen=True, kw_only=True)
class SessionStart:
    """To the Thinker: a duplex session begins. `Abort` ends it everywhere."""

    request_id: str
    epoch: int
    prefix: tuple[int, ...]  # the system text
    reference: tuple[NDArray[np.float32], ...]  # features of the reference recording, each [num_mel_bins, n]
    suffix: tuple[int, ...]
    window: WindowConfig
    speaks: bool
    seed: int
    max_unit_chars: int | None  # a unit's text ends before it has so many


@dataclass(frozen=True, kw_only=True)
class UnitImage:
    """One picture or slice of a unit."""

    strip: NDArray[np.float32]  # [3, P, P·L] pixels
    grid: tuple[int, int]
    is_slice: bool


@dataclass(frozen=True, kw_only=True)
class SessionUnit:
    """To the Thinker: a second of input. Units of a session come one at a time."""

    request_id: str
    epoch: int
    number: int
    mel: NDArray[np.float32]  # [num_mel_bins, n]
    trim_front: int  # see `MelChunk`
    trim_end: int
    images: tuple[UnitImage, ...]
    force_listen: bool
    sampling: DecisionSampling
    max_tokens: int
    deadline_s: float


@dataclass(frozen=True, kw_only=True)
class SessionCancel:
    """To the Thinker: what was being said is cut off. An open turn is closed before the next unit."""

    request_id: str
    epoch: int  # of what follows


@dataclass(frozen=True, kw_only=True)
class SessionTalk:
    """To the Talker: a duplex session that speaks."""

    request_id: str
    epoch: int
    sampling: SamplingParams
    seed: int


@dataclass(frozen=True, kw_only=True)
class SessionVoice(VoiceRequest):
    """To Code2Wav: a duplex session that speaks. Its turns are streams of their own."""


SessionCommand = SessionStart | SessionUnit | SessionCancel | SessionTalk | SessionVoice
StageRequest = ThinkerRequest | TalkerRequest | VoiceRequest | SessionCommand
Command = StageRequest | Abort


# --- from stage to stage ---


@dataclass(frozen=True)
class HandOver:
    """When a piece set out to another worker, on the host's clock."""

    queued_s: float  # ready to be sent
    sent_s: float  # the sending began


@dataclass(frozen=True, kw_only=True)
class SpokenPiece:
    """Thinker to Talker: tokens to speak and the hidden row of each. `is_last`: nothing follows; may then be empty."""

    request_id: str
    epoch: int
    ids: tuple[int, ...]
    rows: Tensor  # [len(ids), hidden] on the Thinker's device
    is_last: bool
    ready: Fence | None = None  # within one process: when the rows are complete
    way: HandOver | None = None  # None within one process


@dataclass(frozen=True, kw_only=True)
class CodecChunk:
    """Talker to Code2Wav: what the vocoder takes in one call. Unless `is_last` the final 3 ids are look-ahead only.

    Without ids the chunk is the last and says that nothing is voiced (any more).
    """

    request_id: str
    epoch: int
    codes: tuple[int, ...]
    is_last: bool
    way: HandOver | None = None


@dataclass(frozen=True, kw_only=True)
class SpokenUnit:
    """Thinker to Talker: what a unit says, and the hidden row of each token. `ids` may be empty.

    With `resets_voice` nothing is said, and what follows begins in a fresh voice. With `ends_turn` too it was cut off:
    what is spoken or waits for it is dropped, and the Talker forgets the turn.
    """

    request_id: str
    epoch: int
    number: int
    ids: tuple[int, ...]
    rows: Tensor  # [len(ids), hidden]
    ends_turn: bool
    resets_voice: bool = False
    deadline_s: float = 0.0  # of the unit, on the device loop's clock
    ready: Fence | None = None
    way: HandOver | None = None


@dataclass(frozen=True, kw_only=True)
class UnitCodes:
    """Talker to Code2Wav: the vocoder calls of one unit, perhaps none. The last of a turn has no look-ahead.

    `resets_voice` as in `SpokenUnit`.
    """

    request_id: str
    epoch: int
    number: int
    chunks: tuple[tuple[int, ...], ...]
    ends_turn: bool
    resets_voice: bool = False
    deadline_s: float = 0.0
    way: HandOver | None = None


StagePiece = SpokenPiece | CodecChunk | SpokenUnit | UnitCodes


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


@dataclass(frozen=True, kw_only=True)
class SessionOpened:
    """The system part of a duplex session is in the context."""

    request_id: str
    epoch: int
    num_tokens: int


@dataclass(frozen=True, kw_only=True)
class UnitDecided:
    """A unit begins to speak, or listens. Exactly one for each unit that does not fail."""

    request_id: str
    epoch: int
    number: int
    speaks: bool


@dataclass(frozen=True, kw_only=True)
class UnitWritten:
    """The Thinker is done with a unit."""

    request_id: str
    epoch: int
    number: int
    ids: tuple[int, ...]  # said: without the unit's first id and its terminator
    decided_ids: tuple[int, ...]  # all that were fed in front of the terminator
    terminator: int
    is_listen: bool
    ends_turn: bool
    closed_turn: bool  # the turn ended in this unit, which then listened
    num_input_tokens: int
    context_tokens: int  # of the session behind the unit
    thinker_s: float  # from the arrival of the unit's command


@dataclass(frozen=True, kw_only=True)
class UnitDrawn:
    """The Talker is done with a unit."""

    request_id: str
    epoch: int
    number: int
    codes: tuple[int, ...]
    has_rolled_over: bool
    talker_s: float


@dataclass(frozen=True, kw_only=True)
class UnitVoiced:
    """A unit's speech, 24 kHz. Within a turn it is a second, with zeros in front of what a first unit holds back."""

    request_id: str
    epoch: int
    number: int
    samples: NDArray[np.float32]  # [N]
    code2wav_s: float


@dataclass(frozen=True, kw_only=True)
class UnitRefused:
    """A unit was not begun, or cannot be spoken. The session can go on."""

    request_id: str
    epoch: int
    number: int
    code: str
    message: str


@dataclass(frozen=True, kw_only=True)
class SessionCut:
    """Units have left the context of a session."""

    request_id: str
    epoch: int
    num_units: int
    num_tokens: int  # by which it became shorter
    context_tokens: int  # that it has now


SessionOutput = SessionOpened | UnitDecided | UnitWritten | UnitDrawn | UnitVoiced | UnitRefused | SessionCut
RequestOutput = TextTokens | TextEnd | DrawnCodes | SpeechEnd | SpeechSamples | RequestFailed | SessionOutput
StageOutput = StagePiece | RequestOutput
FrontMessage = RequestOutput | WorkerDied
MESSAGES = (
    *(ThinkerRequest, TalkerRequest, VoiceRequest, Abort, SpokenPiece, CodecChunk),
    *(SessionStart, SessionUnit, SessionCancel, SessionTalk, SessionVoice, SpokenUnit, UnitCodes),
    *(SessionOpened, UnitDecided, UnitWritten, UnitDrawn, UnitVoiced, UnitRefused, SessionCut),
    *(TextTokens, TextEnd, DrawnCodes, SpeechEnd, SpeechSamples, RequestFailed, WorkerDied),
)
