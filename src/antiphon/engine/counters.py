"""Counts how often each optimisation was used and how often it fell back, with the reason."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Counters:
    """One per worker. Written by the device loop only; reading a snapshot elsewhere is safe.

    An optimisation whose `used` stays 0 is not an optimisation: benchmarks print these beside their figures.
    """

    used: Counter[str] = field(default_factory=Counter)
    fell_back: Counter[tuple[str, str]] = field(default_factory=Counter)

    def use(self, name: str, times: int = 1) -> None:
        self.used[name] += times

    def fall_back(self, name: str, reason: str) -> None:
        self.fell_back[name, reason] += 1

    def snapshot(self) -> dict[str, int]:
        """Flat view: `name` for uses, `name/reason` for fall-backs."""
        return {**self.used, **{f"{name}/{reason}": count for (name, reason), count in list(self.fell_back.items())}}
