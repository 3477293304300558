"""What a gate found: checks with figures and limits, the counters that show the fast path ran, and the verdict."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from antiphon.config.optimizations import Exactness, SwitchValue


class Verdict(Enum):
    PASS = "pass"
    FAIL = "FAIL"
    NOT_SHOWN = "not shown"  # this device cannot run the fast path, so nothing was learnt


@dataclass(frozen=True, kw_only=True)
class Check:
    """One figure against its limit.

    Attributes:
        value: as measured; NaN never passes.
        limit: the bound; the most that is allowed, or with `is_at_least` the least.
    """

    name: str
    value: float
    limit: float
    is_at_least: bool = False

    @property
    def has_passed(self) -> bool:
        return self.value >= self.limit if self.is_at_least else self.value <= self.limit

    def __str__(self) -> str:
        return f"{self.name} {self.value:.4g} ({'≥' if self.is_at_least else '≤'} {self.limit:.4g})"


@dataclass(frozen=True, kw_only=True)
class GateResult:
    """One switch, tried between two settings.

    Attributes:
        used: by counter, how often the fast path was taken with *fast* in force.
        fell_back: by counter and reason, how often it was not.
        reason: why nothing was shown, or why it failed beyond the checks; empty otherwise.
    """

    switch: str
    exactness: Exactness
    plain: SwitchValue | str
    fast: SwitchValue
    verdict: Verdict
    checks: Sequence[Check] = ()
    used: Mapping[str, int] = field(default_factory=dict)
    fell_back: Mapping[str, int] = field(default_factory=dict)
    reason: str = ""
    duration_s: float = 0.0


def judge(checks: Sequence[Check], used: Mapping[str, int]) -> tuple[Verdict, str]:
    """Pass if every check does and every counter moved; with the reason if not."""
    idle = [name for name, count in used.items() if not count]
    failed = [check.name for check in checks if not check.has_passed]
    reasons = []
    if failed:
        reasons.append(f"missed: {', '.join(failed)}")
    if idle:
        reasons.append(f"the fast path was not taken: counter {', '.join(idle)} is 0")
    return (Verdict.FAIL if reasons else Verdict.PASS), "; ".join(reasons)
