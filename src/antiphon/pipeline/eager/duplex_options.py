"""What a duplex session is told at its start, and where the two reference variants of it differ.

Specification, sections 5.2 to 5.4. The defaults are those of the base variant.
"""

from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor

from antiphon.core.errors import ConfigError
from antiphon.engine.context_window import WindowConfig
from antiphon.engine.duplex_decision import DecisionSampling
from antiphon.prompt.duplex_markup import DEFAULT_PREVIOUS_MARKER


@dataclass(frozen=True, kw_only=True)
class DuplexRules:
    """The points where the reference's variants part. None of them changes the protocol's token sequence as such."""

    batches_prompt: bool  # the system text in one forward, not id by id
    defers_end: bool  # terminator and `</unit>` wait for `finish_unit`, in one forward, so that speech can leave first
    max_unit_chars: int | None  # a unit stops before its text reaches this length
    always_flushes: bool  # every speaking unit empties a short code buffer, not only the first one of a turn
    fills_muted: bool  # a speaking unit without audio still returns a second of zeros


BASE_RULES = DuplexRules(
    batches_prompt=False, defers_end=False, max_unit_chars=None, always_flushes=False, fills_muted=False
)
UNIFIED_RULES = DuplexRules(
    batches_prompt=True, defers_end=True, max_unit_chars=28, always_flushes=True, fills_muted=True
)


@dataclass(frozen=True, kw_only=True)
class DuplexOptions:
    """Session arguments. `max_tokens` counts the decision tokens of a unit; the last possible is `<|chunk_eos|>`."""

    rules: DuplexRules = BASE_RULES
    window: WindowConfig = field(default_factory=WindowConfig)
    previous_marker: str = DEFAULT_PREVIOUS_MARKER  # stands before the kept words in window mode `context`
    sampling: DecisionSampling = field(default_factory=DecisionSampling)
    max_tokens: int = 20
    force_listen_count: int = 0  # the first calls of generate listen without asking the model
    generate_audio: bool = True
    batches_vision: bool = False  # all images of a unit in one forward

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise ConfigError(f"max_tokens is {self.max_tokens}; a unit needs at least one token to end")
        if self.force_listen_count < 0:
            raise ConfigError(f"force_listen_count is {self.force_listen_count}; it cannot be negative")


class LogitsBias(Protocol):
    """Changes the logits in front of the decision, for replays that steer a model with random weights."""

    def __call__(self, logits: Tensor, *, unit: int, step: int) -> Tensor:
        """*logits* [vocab] of step *step* in the *unit*-th call of generate (both from 0) → logits to decide on."""
        ...
