"""What each seat's duplex decisions need, kept on the device so that captured steps can read and advance it."""

from collections.abc import Sequence

import torch
from torch import Tensor

from antiphon.engine.duplex_seat_rule import DuplexIds, DuplexSeatRule
from antiphon.engine.paged_cache import upload
from antiphon.layers.decision_rows import NUM_COLUMNS, NUM_RULES, RING_IDS, Column, Role


class DuplexState:
    """Tensors with one row a seat; the last row is the padding's and is never a sequence's.

    Attributes:
        roles: [5] int64, by `Role`.
        forbidden: [V] bool, ids that the second draw never gives.
        numbers: [S, NUM_COLUMNS] int64, by `Column`.
        rules: [S, NUM_RULES] float32, by `Rule`.
        is_duplex: [S] bool.
    """

    def __init__(self, num_seats: int, vocab_size: int, device: torch.device) -> None:
        self.device = device
        self.roles = torch.zeros(len(Role), dtype=torch.int64, device=device)
        self.forbidden = torch.zeros(vocab_size, dtype=torch.bool, device=device)
        self.numbers = torch.zeros(num_seats, NUM_COLUMNS, dtype=torch.int64, device=device)
        self.numbers[:, Column.WINDOW] = 1
        self.rules = torch.ones(num_seats, NUM_RULES, device=device)
        self.is_duplex = torch.zeros(num_seats, dtype=torch.bool, device=device)
        self._filler = 0
        self._duplex_seats: set[int] = set()  # where `is_duplex` holds

    def set_ids(self, ids: DuplexIds) -> None:
        """Tell the roles of ids, before the first rule."""
        self.roles.copy_(upload(ids.roles, torch.int64, self.device))
        self.forbidden.zero_()
        self.forbidden[upload(ids.forbidden, torch.int64, self.device)] = True
        self._filler = ids.chunk_eos

    def load(self, seats: Sequence[int], rules: Sequence[DuplexSeatRule]) -> None:
        """Put *rules* into the given seats."""
        index = upload(seats, torch.int64, self.device)
        floats: list[float] = []
        ints: list[int] = []
        for rule in rules:
            floats += (rule.temperature, rule.top_p, rule.listen_prob_scale)
            floats += (rule.repetition_penalty, rule.length_penalty)
            ints += (rule.is_greedy, rule.is_turn_open, rule.top_k, rule.listen_top_k, rule.seed, rule.draw_step)
            ints += (rule.penalty_window, len(rule.history), *rule.history)
            ints += (self._filler,) * (RING_IDS - len(rule.history))
        self.rules[index] = upload(floats, torch.float32, self.device).view(len(rules), -1)
        self.numbers[index] = upload(ints, torch.int64, self.device).view(len(rules), -1)
        self._mark([seat for seat in seats if seat not in self._duplex_seats], is_duplex=True)

    def leave(self, seats: Sequence[int]) -> None:
        """The given seats draw text from now on."""
        self._mark([seat for seat in seats if seat in self._duplex_seats], is_duplex=False)

    def column(self, column: Column, seats: Tensor) -> Tensor:
        """That number of *seats* [B]: [B] int64."""
        return self.numbers[seats, column]

    def _mark(self, seats: list[int], *, is_duplex: bool) -> None:
        if not seats:
            return
        self.is_duplex[upload(seats, torch.int64, self.device)] = is_duplex
        if is_duplex:
            self._duplex_seats.update(seats)
        else:
            self._duplex_seats.difference_update(seats)
