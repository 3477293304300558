"""What the Thinker engine is given and what it gives back."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from torch import Tensor

from antiphon.core.errors import SamplingError
from antiphon.engine.device_stream import Fence
from antiphon.engine.duplex_decision import DecisionIds, DecisionSampling
from antiphon.engine.sampling_range import require_range
from antiphon.layers.decision_rows import RING_IDS


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
class DuplexRule:
    """How the answer to one unit of a duplex session is decided, and what ends it (model specification, 5.2 and 5.3).

    A turn under this rule is one unit: it ends at a terminator (listen, chunk end, chunk end of speech), which is
    reported and not fed. A listen inside an open turn is fed, and reported, as *tts_bos_id*. Whether a turn is open,
    what the penalty has seen and how many draws were made go with the sequence from unit to unit.

    Attributes:
        ids: ids by role; all sessions of an engine have the same.
        max_tokens: of the unit with its terminator, at least 2: the last is the chunk end, without asking the model.
        seed: 0 … 2^63 − 1.
        accepts: asked about every id behind the unit's first that ends nothing, on the engine's thread: the ids behind
            the first one, this one last. False ends the unit in front of it, as a chunk end; it counts as drawn.
    """

    sampling: DecisionSampling
    ids: DecisionIds
    listen_id: int
    tts_bos_id: int
    chunk_tts_eos_id: int
    max_tokens: int = 20
    seed: int = 0
    accepts: Callable[[tuple[int, ...]], bool] | None = None

    def __post_init__(self) -> None:
        require_range("max_tokens", self.max_tokens, 2)
        require_range("seed", self.seed, 0)
        if self.sampling.penalty_window > RING_IDS:
            raise SamplingError(
                f"penalty_window is {self.sampling.penalty_window}; this engine remembers the last {RING_IDS} ids, "
                "lower it"
            )

    @property
    def terminators(self) -> frozenset[int]:
        return frozenset((self.listen_id, self.ids.chunk_eos, self.chunk_tts_eos_id))


@dataclass(frozen=True, kw_only=True)
class ThinkerPiece:
    """One turn's input for a parked (or, queued, for a busy) sequence; positions go on.

    Without *decode* a piece that waits or computes joins the next one: one turn, one end.

    Attributes:
        sampling: how a text answer is drawn. With *duplex* None too, the rule of the last turn holds.
        duplex: how a unit's answer is decided, instead of *sampling*.
        closes_turn: the duplex session's turn is no longer open when this piece begins (a forced listen).
        decode: draw an answer behind *ids*; otherwise they are only computed.
        wants_hidden: hand on the rows of the drawn tokens.
        deadline_s: on the engine's clock; earlier goes first within a priority.
        priority: lower goes first.
        epoch: repeated in the outputs of the turn.
    """

    ids: tuple[int, ...]
    media: tuple[MediaRows, ...] = ()
    sampling: ThinkerSampling | None = None
    duplex: DuplexRule | None = None
    closes_turn: bool = False
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
        rows_from: of a job that only computes: report *ids* from this one on, with their rows, as if they were drawn.
            They are never found in the prefix cache.
    """

    seq_id: str
    is_resumable: bool = False
    rows_from: int | None = None


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
        stop_id: the id that ended it; of a unit that reached its limit, the chunk end that must be fed.
        is_turn_open: whether the duplex session's turn is open behind these ids.
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
    is_turn_open: bool = False
    is_last: bool = False
    num_prompt_tokens: int = 0
    num_cached_tokens: int = 0
    error: str | None = None
