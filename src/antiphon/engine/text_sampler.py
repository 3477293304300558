"""How a batch of rows draws its next tokens: the rule of `chat_sampling` for many rows at once, without a host sync.

Draws are counter RNG races keyed by each row's seed and draw number, so a row draws the same alone and in any batch.
"""

from collections.abc import Iterable
from enum import IntEnum

import torch
from torch import Tensor

from antiphon.engine.duplex_seat_rule import DuplexSeatRule
from antiphon.engine.logits_filters import NEVER
from antiphon.engine.text_sampler_state import SamplerState, SeatRule
from antiphon.layers.counter_rng import counter_uniform
from antiphon.layers.decision_rows import MAX_CANDIDATES

MAX_TOP_K = 128  # rows with a smaller top-k need no sort of the vocabulary


class SampleKind(IntEnum):
    """What a batch needs at most.

    Each kind gives a text that needs less what the lesser kind would; likewise the kinds of duplex sessions.
    """

    GREEDY = 0
    PENALISED = 1  # greedy, with penalties or bans
    TOP_K = 2
    SORT = 3
    DUPLEX = 4  # sessions alone, all with few candidates
    DUPLEX_TOP_K = 5  # sessions with few candidates, and texts of up to `TOP_K`
    DUPLEX_SORT = 6

    @property
    def has_duplex(self) -> bool:
        return self >= SampleKind.DUPLEX

    @property
    def text_kind(self) -> "SampleKind | None":
        """What the texts beside the sessions need; None if there are none."""
        beside = {SampleKind.DUPLEX: None, SampleKind.DUPLEX_TOP_K: SampleKind.TOP_K}
        return beside.get(self, min(self, SampleKind.SORT))


def kind_for(rules: Iterable[SeatRule | DuplexSeatRule]) -> SampleKind:
    """The cheapest kind that serves all rows."""
    rules = tuple(rules)
    sessions = [rule for rule in rules if isinstance(rule, DuplexSeatRule)]
    texts = [_kind(rule) for rule in rules if isinstance(rule, SeatRule)]
    if not sessions:
        return max(texts, default=SampleKind.GREEDY)
    if SampleKind.SORT in texts or any(_needs_sort(rule) for rule in sessions):
        return SampleKind.DUPLEX_SORT
    return SampleKind.DUPLEX_TOP_K if texts else SampleKind.DUPLEX


def _needs_sort(rule: DuplexSeatRule) -> bool:
    draws_from_all = not rule.is_greedy and not 1 <= rule.top_k <= MAX_CANDIDATES
    return draws_from_all or rule.listen_top_k > MAX_CANDIDATES


def _kind(rule: SeatRule) -> SampleKind:
    if rule.temperature == 0.0:
        return SampleKind.PENALISED if rule.changes_scores else SampleKind.GREEDY
    return SampleKind.TOP_K if 1 <= rule.top_k <= MAX_TOP_K else SampleKind.SORT


def draw(logits: Tensor, seats: Tensor, state: SamplerState, kind: SampleKind) -> Tensor:
    """One id for each row of raw *logits* [B, V]; *seats* [B] int64 says whose rules they follow. Returns [B] int64.

    Reads *state* and does not change it.
    """
    scores = logits.float()
    if kind is SampleKind.GREEDY:
        return scores.argmax(-1)
    scores = _penalise(scores, seats, state)
    best = scores.argmax(-1)
    if kind is SampleKind.PENALISED:
        return best
    rule = state.rules[seats]
    temperature = rule[:, 0, None]
    is_greedy = temperature == 0.0
    scores = scores / torch.where(is_greedy, 1.0, temperature)
    if kind is SampleKind.TOP_K:
        descending, ids = scores.topk(min(MAX_TOP_K, scores.shape[-1]))
        ascending, ids = descending.flip(-1), ids.flip(-1)
    else:
        ascending, ids = scores.sort()
    probs = _filter(ascending, state.top_k[seats, None], rule[:, 1, None], rule[:, 2, None]).softmax(-1)
    uniform = counter_uniform(state.seed[seats, None], state.draw_step[seats, None], ids)
    # The race of `exponential_race`, run among the candidates.
    drawn = ids.gather(-1, (probs / -torch.log1p(-uniform)).argmax(-1, keepdim=True))
    return torch.where(is_greedy[:, 0], best, drawn[:, 0])


def _penalise(scores: Tensor, seats: Tensor, state: SamplerState) -> Tensor:
    """Repetition penalty, frequency and presence penalties, bans: in this order."""
    counts, rule = state.counts[seats], state.rules[seats]
    is_present = counts > 0
    repetition = torch.where(is_present, rule[:, 3, None], 1.0)
    scores = torch.where(scores < 0, scores * repetition, scores / repetition)
    scores = scores - rule[:, 4, None] * counts - rule[:, 5, None] * is_present
    banned = state.banned_ids[seats]
    is_banned = state.turn_step[seats, None] < state.banned_until[seats]
    return scores.scatter(-1, banned, torch.where(is_banned, NEVER, scores.gather(-1, banned)))


def _filter(ascending: Tensor, top_k: Tensor, top_p: Tensor, min_p: Tensor) -> Tensor:
    """Top-k, top-p, min-p over candidates [B, C] sorted upwards; a *top_k* of 0, *top_p* of 1, *min_p* of 0 is off."""
    num_candidates = ascending.shape[-1]
    kth = num_candidates - top_k.clamp(max=num_candidates)
    threshold = ascending.gather(-1, kth.clamp(max=num_candidates - 1))
    ascending = ascending.masked_fill((top_k > 0) & (ascending < threshold), NEVER)
    is_tail = (ascending.softmax(-1).cumsum(-1) <= 1.0 - top_p) & (top_p < 1.0)
    is_tail[:, -1] = False
    ascending = ascending.masked_fill(is_tail, NEVER)
    probs = ascending.softmax(-1)
    return ascending.masked_fill(probs < min_p * probs[:, -1:], NEVER)
