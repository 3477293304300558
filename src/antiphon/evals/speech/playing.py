"""When a player that stops and waits would have run dry, from when each piece of the sound came."""

from collections.abc import Sequence
from dataclasses import dataclass

from antiphon.bench.continuity import DEFAULT_THRESHOLD_S


@dataclass(frozen=True)
class Stall:
    """The player had played up to *position_s* of the sound and waited *duration_s* for more."""

    position_s: float
    duration_s: float


@dataclass(frozen=True)
class Playing:
    """How the sound would have been heard as it came. Playback starts at the first piece."""

    stalls: tuple[Stall, ...]

    @property
    def underrun_s(self) -> float:
        """All waiting together, which is also the largest lack that a player on a fixed clock would have had."""
        return sum(stall.duration_s for stall in self.stalls)

    @property
    def longest_s(self) -> float:
        return max((stall.duration_s for stall in self.stalls), default=0.0)

    def is_continuous(self, threshold_s: float = DEFAULT_THRESHOLD_S) -> bool:
        return self.underrun_s <= threshold_s


def play(arrivals: Sequence[tuple[float, int]], rate_hz: int) -> Playing:
    """Play pieces of (when it came in seconds, samples of it) at *rate_hz*."""
    stalls: list[Stall] = []
    dry_at_s: float | None = None  # when the player will have played all that came
    num_received = 0
    for at_s, num_samples in arrivals:
        if not num_samples:
            continue
        if dry_at_s is None:
            dry_at_s = at_s
        elif at_s > dry_at_s:
            stalls.append(Stall(num_received / rate_hz, at_s - dry_at_s))
            dry_at_s = at_s
        dry_at_s += num_samples / rate_hz
        num_received += num_samples
    return Playing(tuple(stall for stall in stalls if stall.duration_s > 1e-9))
