"""Fixed rows of a stage, each lent to one sequence or stream at a time."""

import heapq

from antiphon.core.errors import CapacityError, ConfigError, StateError


class SlotPool:
    """Slots 0 … num_slots − 1. Invariant: each is either free, or lent to one borrower, or retired behind one fence.

    The lowest free slot is lent first, so that few borrowers fill a small batch.
    """

    def __init__(self, num_slots: int, *, name: str = "slots") -> None:
        if num_slots < 1:
            raise ConfigError(f"{name}: {num_slots} slots; give at least one")
        self.num_slots = num_slots
        self._name = name
        self._free = list(range(num_slots))
        self._borrowers: dict[int, str] = {}
        self._retired: dict[int, int] = {}  # slot → fence

    @property
    def num_free(self) -> int:
        return len(self._free)

    @property
    def num_lent(self) -> int:
        return len(self._borrowers)

    @property
    def num_retired(self) -> int:
        return len(self._retired)

    def lend(self, borrower: str) -> int:
        """Lend a free slot.

        Raises:
            CapacityError: none is free.
        """
        if not self._free:
            raise CapacityError(
                f"{self._name}: all {self.num_slots} are taken ({self.num_retired} of them wait for the device); "
                f"{borrower} must wait"
            )
        slot = heapq.heappop(self._free)
        self._borrowers[slot] = borrower
        return slot

    def is_lent_to(self, slot: int, borrower: str) -> bool:
        """Whether an output of *slot* belongs to *borrower*."""
        return self._borrowers.get(slot) == borrower

    def give_back(self, slot: int, borrower: str) -> None:
        """Free a slot that no launch touches any more."""
        self._take_from(slot, borrower)
        heapq.heappush(self._free, slot)

    def retire(self, slot: int, borrower: str, fence_id: int) -> None:
        """Take a slot back whose last launch may still run; it is free once that launch's fence has passed.

        Fence ids rise from launch to launch.
        """
        self._take_from(slot, borrower)
        self._retired[slot] = fence_id

    def pass_fence(self, fence_id: int) -> tuple[int, ...]:
        """All launches up to *fence_id* are done. Returns the slots that became free."""
        freed = tuple(slot for slot, fence in self._retired.items() if fence <= fence_id)
        for slot in freed:
            del self._retired[slot]
            heapq.heappush(self._free, slot)
        return freed

    def _take_from(self, slot: int, borrower: str) -> None:
        if not self.is_lent_to(slot, borrower):
            owner = self._borrowers.get(slot, "nobody")
            raise StateError(f"{self._name}: slot {slot} is lent to {owner}, {borrower} cannot give it back")
        del self._borrowers[slot]
