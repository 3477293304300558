"""How long units take, and whether one session more would still be in time. Plain arithmetic."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from antiphon.pipeline.duplex.running_unit import UNIT_S

MIN_UNITS = 10  # fewer say nothing
_MAX_UNITS = 512
_PERCENTILE = 0.95


@dataclass(frozen=True)
class _Measured:
    unit_s: float
    num_sessions: int
    at_s: float


class SessionLoad:
    """The units of the last seconds, whichever session they were of.

    How long a unit takes grows with the number of sessions, but slower than in proportion, because they share
    launches. So what was measured while at least half as many lived is scaled in proportion, which errs on the safe
    side; what was measured with fewer says too little.

    Args:
        budget_s: in which a unit should be over; less than its second, since loads are uneven.
        memory_s: older units say nothing.
    """

    def __init__(self, *, budget_s: float = 0.9, memory_s: float = 30.0) -> None:
        self.budget_s, self._memory_s = budget_s, memory_s
        self._units: deque[_Measured] = deque(maxlen=_MAX_UNITS)

    def note(self, unit_s: float, *, num_sessions: int, now_s: float) -> None:
        """A unit took *unit_s* from its coming to its end, while *num_sessions* lived."""
        self._units.append(_Measured(unit_s, num_sessions, now_s))

    def projected_s(self, *, num_sessions: int, now_s: float, running_s: Iterable[float] = ()) -> float | None:
        """What most units would not exceed if there were one session more than *num_sessions*; None: not known.

        *running_s* says for how long the units under way have been there. Of a machine that is far too slow hardly any
        ends, so where half of the sessions wait for longer than a second, these decide.
        """
        if num_sessions == 0:
            return None
        late_s = [age_s for age_s in running_s if age_s > UNIT_S]
        if 2 * len(late_s) >= num_sessions:
            return max(late_s) * (num_sessions + 1) / num_sessions
        while self._units and self._units[0].at_s < now_s - self._memory_s:
            self._units.popleft()
        telling = [unit for unit in self._units if 2 * unit.num_sessions >= num_sessions]
        if len(telling) < MIN_UNITS:
            return None
        scaled = sorted(unit.unit_s * max(1.0, (num_sessions + 1) / unit.num_sessions) for unit in telling)
        return scaled[int(_PERCENTILE * len(scaled))]
