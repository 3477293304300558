"""What the front of the pipeline is asked of a duplex session, and what it says back."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from antiphon.core.errors import AntiphonError
from antiphon.core.sampling import DEFAULT_STAGE_PARAMS, SamplingParams
from antiphon.engine.context_window import WindowConfig
from antiphon.engine.duplex_decision import DecisionSampling
from antiphon.pipeline.voice_book import PreparedVoice
from antiphon.prompt.duplex_markup import DEFAULT_INSTRUCTIONS

MAX_UNIT_TOKENS = 20  # the checkpoint's, the terminator included
MAX_UNIT_CHARS = 28  # of a unit's text, so that 25 codes can say it


@dataclass(frozen=True, kw_only=True)
class SessionPlan:
    """How a session begins.

    Attributes:
        voice: what it speaks with; None: text only, and neither Talker nor Code2Wav is touched.
        reference: the same recording for the Thinker, [N] float32 mono 16 kHz; None: it hears none.
        first_text: a typed message that the conversation begins with.
        seed: of all draws.
        max_unit_chars: None: no limit.
    """

    session_id: str
    instructions: str = DEFAULT_INSTRUCTIONS
    reference: NDArray[np.float32] | None = None
    voice: PreparedVoice | None = None
    first_text: str | None = None
    window: WindowConfig = field(default_factory=WindowConfig)
    seed: int = 0
    max_unit_chars: int | None = MAX_UNIT_CHARS
    talker: SamplingParams = DEFAULT_STAGE_PARAMS[1]


@dataclass(frozen=True, kw_only=True, eq=False)
class InputUnit:
    """A second of input. Units come one at a time: the next one after `UnitFinished`, or after a cancel."""

    epoch: int
    number: int
    samples: NDArray[np.float32]  # [16000], 16 kHz
    frames: tuple[Image.Image, ...] = ()
    force_listen: bool = False
    sampling: DecisionSampling = field(default_factory=DecisionSampling)
    max_tokens: int = MAX_UNIT_TOKENS


# --- what the session says; each is for a unit of the epoch and number that it names


@dataclass(frozen=True)
class Opened:
    """The system part is in the context."""

    num_tokens: int


@dataclass(frozen=True)
class Decided:
    epoch: int
    number: int
    speaks: bool


@dataclass(frozen=True, eq=False)
class Spoken:
    """What a unit says, and how it sounds ([N] float32, 24 kHz); without speech the samples are empty."""

    epoch: int
    number: int
    text: str
    samples: NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class UnitFinished:
    """The last word about a unit that did not fail."""

    epoch: int
    number: int
    is_listen: bool
    end_of_turn: bool  # the model ended its turn, or it was ended so that the unit could listen
    num_input_tokens: int
    num_text_tokens: int
    num_codec_frames: int
    context_tokens: int  # of the session
    has_rebuilt_talker: bool  # the talker's context was full and was rebuilt
    decision_s: float  # from the unit's coming until it was known whether it speaks
    text_s: float | None  # until its text, None without
    audio_s: float | None
    thinker_s: float
    talker_s: float
    code2wav_s: float
    unit_s: float  # from the unit's coming to its end
    late_s: float  # behind the second that the unit had


@dataclass(frozen=True)
class UnitFailed:
    """The unit is over; the session can go on."""

    epoch: int
    number: int
    code: str
    message: str


@dataclass(frozen=True)
class ContextCut:
    """The oldest units have left the context."""

    num_units: int
    num_tokens: int
    context_tokens: int


@dataclass(frozen=True)
class SessionFailed:
    """The session is over, and everything of it is freed."""

    error: AntiphonError
    stage: str | None = None


SessionEvent = Opened | Decided | Spoken | UnitFinished | UnitFailed | ContextCut | SessionFailed
Deliver = Callable[[SessionEvent], None]  # on a thread of the pipeline; must not block
