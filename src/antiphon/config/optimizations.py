"""The switches of the optimisations: one field each, with its default, its exactness and its rollback variable.

Source: optimisation specification, section 5.4. Counters of uses and fall-backs carry the fields' names.
"""

from dataclasses import MISSING, dataclass, field, fields
from enum import Enum
from typing import Any, Final

SwitchValue = bool | int | str


class Exactness(Enum):
    """What may differ from the slow twin when a switch leaves its plain setting (section 5.2)."""

    LOSSLESS = "lossless"  # the same tokens, the same samples
    ROUNDING = "lossless up to rounding"  # another order of summation
    DISTRIBUTION = "distribution-equivalent"  # the same law, other draws
    BOUNDED = "bounded numeric"  # close values, gated by quality scores
    PRODUCT = "product decision"  # another generation or another latency, by choice


@dataclass(frozen=True, kw_only=True)
class Switch:
    """What is known about one switch apart from its value."""

    name: str
    default: SwitchValue
    exactness: Exactness
    about: str
    choices: tuple[SwitchValue, ...]  # empty: any value of the default's type from `low` to `high`
    low: int
    high: int

    @property
    def variable(self) -> str:
        """The environment variable that overrides every file, for rollback without an edit."""
        return f"ANTIPHON_{self.name.upper()}"

    def refusal(self, value: object) -> str:
        """Why *value* is not allowed, or an empty string."""
        if self.choices:
            # `True == 1`, so the type is compared too.
            allowed = any(value == choice and type(value) is type(choice) for choice in self.choices)
            return "" if allowed else f"is {value!r}; allowed: {', '.join(str(choice) for choice in self.choices)}"
        if isinstance(self.default, bool):
            return "" if isinstance(value, bool) else f"is {value!r}; allowed: true, false"
        if isinstance(value, bool) or not isinstance(value, int):
            return f"is {value!r}; a whole number is needed"
        return "" if self.low <= value <= self.high else f"is {value}; it must be from {self.low} to {self.high}"


def _switch(
    default: SwitchValue,
    exactness: Exactness,
    about: str,
    *,
    choices: tuple[SwitchValue, ...] = (),
    low: int = 0,
    high: int = 0,
) -> Any:
    return field(
        default=default,
        metadata={"exactness": exactness, "about": about, "choices": choices, "low": low, "high": high},
    )


@dataclass(frozen=True, kw_only=True)
class OptimizationsConfig:
    """`optimizations:` of a deploy file. Frames are codec frames of 40 ms."""

    talker_window_steps: int = _switch(
        25, Exactness.LOSSLESS, "Talker steps launched without a host sync, at most", choices=(1, 2, 4, 8, 25, 28)
    )
    talker_graph: bool = _switch(True, Exactness.LOSSLESS, "Talker step as a captured graph")
    talker_sampler: str = _switch(
        "counter",
        Exactness.DISTRIBUTION,
        "who draws codes: the step itself with counter noise, with given noise (parity), or the host",
        choices=("counter", "data", "host"),
    )
    thinker_graph: bool = _switch(True, Exactness.LOSSLESS, "Thinker decode as captured graphs")
    audio_stream_batch: bool = _switch(
        True, Exactness.ROUNDING, "audio of live sessions encoded in one launch, from caches that stay in place"
    )
    early_stop: bool = _switch(True, Exactness.LOSSLESS, "Thinker of a spoken reply stops at the speech boundary")
    ngram_speculation: str = _switch(
        "off", Exactness.ROUNDING, "drafts from the prompt, width adapted", choices=("off", "adaptive")
    )
    hand_off: str = _switch(
        "auto",
        Exactness.PRODUCT,
        "text to speech: whole reply, 10-token conditions, or stream exactly for streaming requests",
        choices=("auto", "span", "stream"),
    )
    cfm_steps: int = _switch(10, Exactness.BOUNDED, "steps of the flow model's ODE", low=1, high=100)
    cfm_tangent_stop: int = _switch(
        0, Exactness.BOUNDED, "steps after which the rest is extrapolated; 0 is never", low=0, high=99
    )
    cfm_graph: bool = _switch(True, Exactness.LOSSLESS, "encoder and whole ODE loop as a captured graph")
    adaln_table: bool = _switch(True, Exactness.LOSSLESS, "modulation vectors precomputed per step")
    dit_precision: str = _switch(
        "tf32", Exactness.BOUNDED, "arithmetic of the flow model; fp32 for parity", choices=("fp32", "tf32", "bf16")
    )
    cache_precision: str = _switch(
        "fp32", Exactness.BOUNDED, "storage of the flow model's attention caches", choices=("fp32", "bf16")
    )
    hift_graph: bool = _switch(True, Exactness.LOSSLESS, "vocoder as captured graphs")
    hift_noise: str = _switch(
        "counter",
        Exactness.DISTRIBUTION,
        "source noise: drawn in place, or given (parity)",
        choices=("counter", "data"),
    )
    voice_template_cache: bool = _switch(True, Exactness.LOSSLESS, "state of a reference voice kept between requests")
    fused_attention: bool = _switch(
        True, Exactness.ROUNDING, "kernels of Thinker and Talker: attention, norms with rotation, the Talker's sampler"
    )
    fused_products: bool = _switch(
        True, Exactness.ROUNDING, "norm, product and activation of a Talker step in one kernel; needs fused_attention"
    )
    fused_dit: bool = _switch(True, Exactness.ROUNDING, "fused kernels of the flow model")
    first_chunk_frames: int = _switch(
        25, Exactness.PRODUCT, "codec frames voiced first in a response", low=1, high=2048
    )
    chunk_frames: int = _switch(25, Exactness.PRODUCT, "codec frames voiced at a time", low=1, high=2048)


def _describe() -> dict[str, Switch]:
    found = {}
    for item in fields(OptimizationsConfig):
        assert item.default is not MISSING
        found[item.name] = Switch(name=item.name, default=item.default, **item.metadata)
    return found


SWITCHES: Final[dict[str, Switch]] = _describe()
