"""Counts how often each optimisation was used and how often it fell back, and notes what histograms are made of."""

from collections import Counter, deque
from dataclasses import dataclass, field

MAX_OBSERVATIONS = 65_536  # kept until somebody takes them; then the oldest go


@dataclass(frozen=True)
class Observation:
    """One value of a histogram. Made a few times in a request, never for each token.

    Attributes:
        family: its name, as in the metrics page.
        stage: that was entered, or that waited.
        edge: along which something came from another worker; empty within one.
    """

    family: str
    value: float
    stage: str
    edge: str = ""


@dataclass
class Counters:
    """One per worker. Counts are written by the device loop only; reading a snapshot elsewhere is safe.

    An optimisation whose `used` stays 0 is not an optimisation: benchmarks print these beside their figures.
    Observations may be made, and are taken, on any thread.
    """

    used: Counter[str] = field(default_factory=Counter)
    fell_back: Counter[tuple[str, str]] = field(default_factory=Counter)
    _observations: deque[Observation] = field(default_factory=lambda: deque(maxlen=MAX_OBSERVATIONS))

    def use(self, name: str, times: int = 1) -> None:
        self.used[name] += times

    def fall_back(self, name: str, reason: str) -> None:
        self.fell_back[name, reason] += 1

    def observe(self, family: str, value: float, stage: str, edge: str = "") -> None:
        """Note one value; see `Observation`."""
        self._observations.append(Observation(family, value, stage, edge))

    def take_observations(self) -> tuple[Observation, ...]:
        """What was noted since the last call."""
        return tuple(self._observations.popleft() for _ in range(len(self._observations)))

    def snapshot(self) -> dict[str, int]:
        """Flat view: `name` for uses, `name/reason` for fall-backs."""
        return {**self.used, **{f"{name}/{reason}": count for (name, reason), count in list(self.fell_back.items())}}
