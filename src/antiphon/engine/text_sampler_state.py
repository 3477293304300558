"""What each seat's sampling needs, kept on the device so that captured steps can read and advance it."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.engine.paged_cache import upload

MAX_BANNED = 160  # stop ids of a request (at most 128) and the model's own terminators
FOREVER = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class SeatRule:
    """The sampling rule of one turn, and where it stands when the seat is taken.

    Attributes:
        temperature: 0 is greedy.
        top_k: 0 is off.
        banned: ids with the number of tokens of the turn before which they must not be drawn.
        draw_step: tokens drawn so far by the sequence: the step of the counter RNG.
        turn_step: of them in this turn.
        generated: ids of this turn, which the penalties count.
    """

    temperature: float
    top_p: float
    min_p: float
    repetition_penalty: float
    frequency_penalty: float
    presence_penalty: float
    top_k: int
    seed: int
    banned: tuple[tuple[int, int], ...]
    draw_step: int
    turn_step: int
    generated: tuple[int, ...]

    @property
    def changes_scores(self) -> bool:
        """Whether penalties or bans may move the maximum."""
        penalties = (self.frequency_penalty, self.presence_penalty, self.repetition_penalty - 1.0)
        return any(penalties) or any(until > self.turn_step for _, until in self.banned)

    @property
    def counts_tokens(self) -> bool:
        return bool(self.frequency_penalty or self.presence_penalty or self.repetition_penalty != 1.0)


class SamplerState:
    """Tensors with one row a seat; the last row is the padding's and is never a sequence's.

    Attributes:
        rules: [S, 6] float32: temperature, top_p, min_p, repetition, frequency and presence penalty.
        top_k, seed, draw_step, turn_step: [S] int64.
        counts: [S, V] int32: how often each id was drawn in the turn.
        banned_ids, banned_until: [S, MAX_BANNED] int64.
    """

    def __init__(self, num_seats: int, vocab_size: int, device: torch.device) -> None:
        self.vocab_size, self.device = vocab_size, device
        self.rules = torch.tensor([0.0, 1.0, 0.0, 1.0, 0.0, 0.0], device=device).repeat(num_seats, 1)
        self.top_k, self.seed, self.draw_step, self.turn_step = (
            torch.zeros(num_seats, dtype=torch.int64, device=device) for _ in range(4)
        )
        self.counts = torch.zeros(num_seats, vocab_size, dtype=torch.int32, device=device)
        self.banned_ids = torch.zeros(num_seats, MAX_BANNED, dtype=torch.int64, device=device)
        self.banned_until = torch.zeros(num_seats, MAX_BANNED, dtype=torch.int64, device=device)
        self._one = torch.ones(num_seats, dtype=torch.int32, device=device)

    def load(self, seats: Sequence[int], rules: Sequence[SeatRule]) -> None:
        """Put *rules* into the given seats."""
        index = upload(seats, torch.int64, self.device)
        ints: list[int] = []
        floats: list[float] = []
        for rule in rules:
            floats += (rule.temperature, rule.top_p, rule.min_p)
            floats += (rule.repetition_penalty, rule.frequency_penalty, rule.presence_penalty)
            ints += (rule.top_k, rule.seed, rule.draw_step, rule.turn_step)
            # Filled up with a repeated ban: equal writes to one place do no harm.
            bans = rule.banned or ((0, 0),)
            bans += (bans[-1],) * (MAX_BANNED - len(bans))
            ints += [token for token, _ in bans] + [until for _, until in bans]
        self.rules[index] = upload(floats, torch.float32, self.device).view(len(rules), -1)
        packed = upload(ints, torch.int64, self.device).view(len(rules), -1)
        for column, tensor in enumerate((self.top_k, self.seed, self.draw_step, self.turn_step)):
            tensor[index] = packed[:, column]
        self.banned_ids[index] = packed[:, 4 : 4 + MAX_BANNED]
        self.banned_until[index] = packed[:, 4 + MAX_BANNED :]
        self._load_counts(index, seats, rules)

    def advance(self, seats: Tensor, drawn: Tensor) -> None:
        """Count the ids *drawn* [B] for *seats* [B]."""
        # Integer sums, because the padding's seat may come up more than once.
        one = self._one[: len(seats)] if len(seats) <= len(self._one) else self._one.new_ones(len(seats))
        self.counts.view(-1).index_add_(0, seats * self.vocab_size + drawn, one)
        self.draw_step[seats] = self.draw_step[seats] + 1
        self.turn_step[seats] = self.turn_step[seats] + 1

    def _load_counts(self, index: Tensor, seats: Sequence[int], rules: Sequence[SeatRule]) -> None:
        if not any(rule.counts_tokens for rule in rules):
            return  # the counts of these seats are never weighed
        self.counts[index] = 0
        places = [seat * self.vocab_size + t for seat, rule in zip(seats, rules, strict=True) for t in rule.generated]
        if places:
            place = upload(places, torch.int64, self.device)
            self.counts.view(-1).index_add_(0, place, torch.ones_like(place, dtype=torch.int32))
