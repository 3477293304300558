"""What a duplex session's decisions remember from unit to unit."""

from collections import deque

from antiphon.layers.decision_rows import ID_MASK, RECORDED, REPLACED, RING_IDS


class DuplexMemory:
    """The host's copy of one session's state. It follows the decisions that were collected, in their order.

    Attributes:
        history: ids that the repetition penalty sees, oldest first.
        num_noise: draws of the counter RNG so far.
        is_turn_open: the model speaks, and only the end of its turn ends that.
    """

    def __init__(self) -> None:
        self.history: deque[int] = deque(maxlen=RING_IDS)
        self.num_noise = 0
        self.is_turn_open = False

    def take(self, decision: int, *, is_greedy: bool, listen_id: int) -> None:
        """Follow one decision, whether or not its id is fed."""
        is_recorded = bool(decision & RECORDED)
        if is_recorded:
            self.history.append(listen_id if decision & REPLACED else decision & ID_MASK)
        if not is_greedy:
            self.num_noise += 1 + is_recorded
