"""How a batch of rows decides: the rule of `duplex_decision` for many sessions at once, without a host sync.

Draws are counter RNG races keyed by each row's seed and draw number, so a session decides the same alone and in any
batch.
"""

import torch
from torch import Tensor

from antiphon.engine.duplex_sampler_state import DuplexState
from antiphon.engine.logits_filters import NEVER
from antiphon.layers.counter_rng import counter_uniform, exponential_race
from antiphon.layers.decision_rows import ID_MASK, MAX_CANDIDATES, RECORDED, REPLACED, Column, Role, Rule


def decide_rows(
    logits: Tensor, seats: Tensor, state: DuplexState, *, sorts_all: bool, use_kernels: bool = False
) -> Tensor:
    """One decision (see `decision_rows`) for each row of raw *logits* [B, V]; *seats* [B] int64 says whose.

    Args:
        sorts_all: a row's top-k is off, or it or the rank rule is above `MAX_CANDIDATES`; has no kernels.
        use_kernels: Triton, the same decisions up to rounding.

    Returns:
        [B] int64. *state* is read and not changed.
    """
    if use_kernels and not sorts_all:
        # Imported here: a machine without Triton must be able to import this module.
        from antiphon.layers.kernels.duplex_decision import decide

        return decide(logits, seats, state.numbers, state.rules, state.roles, state.forbidden)
    roles, step, seed = state.roles, state.column(Column.DRAW_STEP, seats), state.column(Column.SEED, seats)
    is_greedy = state.column(Column.IS_GREEDY, seats) != 0
    wide = logits.float()
    # The first draw sees the bare model.
    first = torch.where(is_greedy, wide.argmax(-1), exponential_race(wide.softmax(-1), seed, step))
    is_chunk_end = first == roles[Role.CHUNK_EOS]
    scores, eos = _scores(wide, seats, state)
    descending, ids = scores.sort(descending=True) if sorts_all else scores.topk(min(MAX_CANDIDATES, scores.shape[-1]))
    is_rank_answer = (descending > eos).sum(-1) < state.column(Column.LISTEN_TOP_K, seats)
    best = torch.where(descending == descending[:, :1], ids, scores.shape[-1] - 1).amin(-1)
    second = torch.where(is_greedy, best, _draw(descending, ids, seats, state))
    token = torch.where(is_rank_answer, roles[Role.TOKENIZER_EOS], second)
    token = torch.where(is_chunk_end, roles[Role.CHUNK_EOS], token)
    is_recorded = ~(is_chunk_end | is_rank_answer)
    # A turn cannot be left by listening, only by its end.
    is_replaced = (token == roles[Role.LISTEN]) & (state.column(Column.IS_TURN_OPEN, seats) != 0)
    fed = torch.where(is_replaced, roles[Role.TTS_BOS], token)
    return fed + is_recorded * RECORDED + is_replaced * REPLACED


def advance_rows(decisions: Tensor, seats: Tensor, state: DuplexState, *, use_kernels: bool = False) -> None:
    """Go on behind *decisions* [B] of *seats* [B]; numbers without marks, of seats that draw text, do no harm."""
    if use_kernels:
        # Imported here: a machine without Triton must be able to import this module.
        from antiphon.layers.kernels.duplex_decision import advance

        advance(decisions, seats, state.numbers, state.roles)
        return
    numbers = state.numbers[seats]
    is_recorded = ((decisions & RECORDED) != 0).long()
    token = decisions & ID_MASK
    recorded = torch.where((decisions & REPLACED) != 0, state.roles[Role.LISTEN], token)[:, None]
    place = Column.RING + (numbers[:, Column.NUM_HISTORY] % numbers[:, Column.WINDOW])[:, None]
    numbers.scatter_(1, place, torch.where(is_recorded[:, None] != 0, recorded, numbers.gather(1, place)))
    numbers[:, Column.NUM_HISTORY] += is_recorded
    numbers[:, Column.DRAW_STEP] += torch.where(numbers[:, Column.IS_GREEDY] != 0, 0, 1 + is_recorded)
    # Of no meaning behind a terminator: the unit is over then.
    numbers[:, Column.IS_TURN_OPEN] = (token != state.roles[Role.TURN_EOS]).long()
    state.numbers[seats] = numbers


def _scores(wide: Tensor, seats: Tensor, state: DuplexState) -> tuple[Tensor, Tensor]:
    """Scores of the second draw before its temperature, [B, V] float32, and the tokenizer's end token's, [B, 1]."""
    rule = state.rules[seats]
    scores = wide.masked_fill(state.forbidden, NEVER)
    # An id may stand in the ring more than once: each writes the same, so the order does not matter.
    seen = state.numbers[seats, Column.RING :]
    scores.scatter_(1, seen, scores.gather(1, seen) / rule[:, Rule.REPETITION_PENALTY, None])
    columns = state.roles[Role.TURN_EOS : Role.TOKENIZER_EOS + 1].expand(len(seats), 2)
    ends = scores.gather(1, columns)
    turn_eos, eos = ends[:, :1], ends[:, 1:]
    length_penalty = rule[:, Rule.LENGTH_PENALTY, None]
    turn_eos = torch.where(turn_eos > 0, turn_eos / length_penalty, turn_eos * length_penalty)
    eos = eos * rule[:, Rule.LISTEN_PROB_SCALE, None]
    return scores.scatter_(1, columns, torch.cat((turn_eos, eos), 1)), eos


def _draw(descending: Tensor, ids: Tensor, seats: Tensor, state: DuplexState) -> Tensor:
    """Temperature, top-k, top-p over candidates [B, C] sorted downwards, and the second draw among the rest."""
    rule, top_k = state.rules[seats], state.column(Column.TOP_K, seats)[:, None]
    num_candidates = descending.shape[-1]
    descending = descending / rule[:, Rule.TEMPERATURE, None]
    threshold = descending.gather(1, (top_k - 1).clamp(0, num_candidates - 1))
    descending = descending.masked_fill((top_k > 0) & (descending < threshold), NEVER)
    top_p = rule[:, Rule.TOP_P, None]
    is_past = (descending.softmax(-1).cumsum(-1) > top_p) & (top_p > 0.0)
    descending[:, 1:].masked_fill_(is_past[:, :-1], NEVER)
    seed, step = state.column(Column.SEED, seats), state.column(Column.DRAW_STEP, seats)
    uniform = counter_uniform(seed[:, None], step[:, None] + 1, ids)
    # The race of `exponential_race`, run among the candidates.
    return ids.gather(1, (descending.softmax(-1) / -torch.log1p(-uniform)).argmax(-1, keepdim=True))[:, 0]
