"""What goes into the Talker engine and what comes out: jobs, conditions, outputs, and the model it drives."""

from dataclasses import dataclass
from enum import Enum
from typing import Literal, Protocol

from torch import Tensor, nn

from antiphon.config.checkpoint import TalkerConfig
from antiphon.engine.device_stream import Fence
from antiphon.engine.talker_sampling import TalkerSampling
from antiphon.layers.decoder import Decoder


class TalkerMode(Enum):
    """How conditions and codes follow each other (model specification, 3.2 to 3.4)."""

    SPAN = "span"  # the whole answer is one condition
    STREAM = "stream"  # conditions of about ten tokens; the end code ends a condition only
    UNIT = "unit"  # duplex: 25 codes a second, no filters


TalkerFinish = Literal["stop", "length", "context", "abort", "error"]


@dataclass(frozen=True, kw_only=True)
class TalkerJob:
    """One request's or session's speech.

    Attributes:
        seed: of the counter RNG; draw number i of the job is a function of it and i.
        min_codes: SPAN only: the end code is masked for so many draws.
        max_codes: codes of the whole job; UNIT jobs end when their conditions do.
        deadline_s: on the engine's clock; earlier ones go first.
        is_greedy: always the most probable code.
    """

    seq_id: str
    epoch: int
    sampling: TalkerSampling
    seed: int
    mode: TalkerMode
    min_codes: int = 50
    max_codes: int = 2047
    deadline_s: float = float("inf")
    is_greedy: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class TalkerCondition:
    """What is to be spoken next.

    Attributes:
        ids: Thinker ids; may be empty.
        hidden: their final-norm rows, [len(ids), llm_hidden], on any device.
        has_text_eos: nothing of the answer follows (never in UNIT mode).
        is_last: the job ends with this condition.
        ends_turn: what follows starts from an empty cache; draws go on counting.
        min_codes: draws for which the end code is masked; None: the mode's rule.
        max_draws: draws at most; None: the mode's rule.
        deadline_s: as of a job; None: the job's.
        ready: passed when *hidden* has been computed; None: it has.
    """

    ids: tuple[int, ...]
    hidden: Tensor
    has_text_eos: bool
    is_last: bool
    ends_turn: bool = False
    min_codes: int | None = None
    max_draws: int | None = None
    deadline_s: float | None = None
    ready: Fence | None = None


@dataclass(frozen=True, kw_only=True)
class TalkerOutput:
    """New codes of one job, in order.

    Attributes:
        condition_ended: no more codes come of the condition these belong to.
        finish_reason: the job is over; exactly one output of each job has one.
        has_rolled_over: the context was rebuilt for the condition whose first codes these are.
    """

    seq_id: str
    epoch: int
    codes: tuple[int, ...]
    condition_ended: bool = False
    finish_reason: TalkerFinish | None = None
    has_rolled_over: bool = False


class TalkerModel(Protocol):
    """The parts of the Talker that the engine computes with; engine and models do not know each other."""

    @property
    def config(self) -> TalkerConfig: ...
    @property
    def model(self) -> Decoder: ...
    @property
    def projector_semantic(self) -> nn.Module: ...
    @property
    def emb_text(self) -> nn.Embedding: ...
    @property
    def emb_code(self) -> nn.ModuleList: ...
    @property
    def head_code(self) -> nn.ModuleList: ...
