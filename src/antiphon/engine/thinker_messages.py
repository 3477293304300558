"""What the Thinker engine is given and what it gives back."""

from dataclasses import dataclass
from enum import Enum

from torch import Tensor

from antiphon.engine.device_stream import Fence
from antiphon.engine.sampling_range import require_range


@dataclass(frozen=True, eq=False)
class MediaRows:
    """Encoded media: *rows* [n, hidden] replace the embeddings of token positions [start, start + n) of their piece.

    Attributes:
        digest: strong hash of the media and of what decides its rows (bytes, size, mode, rate), for the prefix cache;
            empty if unknown, then nothing from here on is shared.
        ready: the rows may be read after it; None if they can be read already.
    """

    start: int
    rows: Tensor
    digest: bytes = b""
    ready: Fence | None = None


@dataclass(frozen=True, kw_only=True)
class ThinkerSampling:
    """How the tokens of one turn are drawn, and what ends it. Penalties count the tokens of the turn only.

    Attributes:
        temperature: 0 is greedy.
        top_k: 0 is off.
        min_tokens: no stop id before this many tokens.
        stop_token_ids: ids that end the turn and are not kept.
        end_ids: the model's own terminators: stop ids too, or with *ignore_eos* never drawn.
        seed: 0 … 2^63 − 1.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    min_tokens: int = 0
    max_tokens: int = 2048
    stop_token_ids: tuple[int, ...] = ()
    end_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        require_range("temperature", self.temperature, 0.0)
        require_range("top_p", self.top_p, 0.0, 1.0)
        require_range("top_k", self.top_k, 0)
        require_range("min_p", self.min_p, 0.0, 1.0)
        require_range("repetition_penalty", self.repetition_penalty, 0.0, above=True)
        require_range("max_tokens", self.max_tokens, 1)
        require_range("seed", self.seed, 0)

    @property
    def stop_ids(self) -> frozenset[int]:
        return frozenset(self.stop_token_ids) | (frozenset() if self.ignore_eos else frozenset(self.end_ids))

    @property
    def never_ids(self) -> frozenset[int]:
        return frozenset(self.end_ids) - self.stop_ids


@dataclass(frozen=True, kw_only=True)
class ThinkerPiece:
    """One turn's input for a parked (or, queued, for a busy) sequence; positions go on.

    Without *decode* a piece that waits or computes joins the next one: one turn, one end.

    Attributes:
        sampling: None keeps the rule of the last turn.
        decode: draw an answer behind *ids*; otherwise they are only computed.
        wants_hidden: hand on the rows of the drawn tokens.
        deadline_s: on the engine's clock; earlier goes first within a priority.
        priority: lower goes first.
        epoch: repeated in the outputs of the turn.
    """

    ids: tuple[int, ...]
    media: tuple[MediaRows, ...] = ()
    sampling: ThinkerSampling | None = None
    decode: bool = True
    wants_hidden: bool = False
    deadline_s: float = 0.0
    priority: int = 0
    epoch: int = 0


@dataclass(frozen=True, kw_only=True)
class ThinkerJob(ThinkerPiece):
    """A new sequence and its first turn.

    Attributes:
        is_resumable: parked when a turn ends, until `close_input` or `abort`; otherwise it ends with its only turn.
    """

    seq_id: str
    is_resumable: bool = False


class TurnEnd(Enum):
    """Why a turn ended: a stop id, a limit, by the caller, or because its values were not finite."""

    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"
    ERROR = "error"


@dataclass(frozen=True, kw_only=True, eq=False)
class ThinkerOutput:
    """News of one sequence. Tokens come as soon as they are drawn, their rows one step later, both in order.

    Attributes:
        new_ids: drawn now; the stop id is not among them.
        row_ids: tokens whose rows became available.
        hidden: [len(row_ids), hidden] on the device: row i is the final-norm state of forwarding `row_ids[i]`. Another
            stream must follow *ready* first, and call `record_stream` on it. Rows of the stop id and of anything after
            it are never handed over.
        has_ended_turn: nothing more comes from this turn.
        finish_reason: why, at the end of a turn that drew or that did not end well.
        stop_id: the id that ended it.
        is_last: the sequence is gone; exactly one output of a sequence says so.
        error: one line, with finish_reason ERROR.
    """

    seq_id: str
    epoch: int
    new_ids: tuple[int, ...] = ()
    row_ids: tuple[int, ...] = ()
    hidden: Tensor | None = None
    ready: Fence | None = None
    has_ended_turn: bool = False
    finish_reason: TurnEnd | None = None
    stop_id: int | None = None
    is_last: bool = False
    num_prompt_tokens: int = 0
    num_cached_tokens: int = 0
    error: str | None = None
