"""Triton: the two draws of a duplex decision, and the state behind it.

The twin, `engine/duplex_sampler.py`, makes some thirty passes over [B, 151,748] numbers of 64 bits for the first draw
and a hundred small launches for the rest.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from antiphon.layers.decision_rows import (
    ID_MASK,
    MAX_CANDIDATES,
    NUM_COLUMNS,
    NUM_RULES,
    RECORDED,
    REPLACED,
    RING_IDS,
    Column,
    Role,
    Rule,
)

_BLOCK = 4096
_NEVER = tl.constexpr(float("-inf"))
_NUM_COLUMNS = tl.constexpr(int(NUM_COLUMNS))
_NUM_RULES = tl.constexpr(NUM_RULES)
_RING_IDS = tl.constexpr(RING_IDS)
_IS_GREEDY = tl.constexpr(int(Column.IS_GREEDY))
_IS_TURN_OPEN = tl.constexpr(int(Column.IS_TURN_OPEN))
_TOP_K = tl.constexpr(int(Column.TOP_K))
_LISTEN_TOP_K = tl.constexpr(int(Column.LISTEN_TOP_K))
_SEED = tl.constexpr(int(Column.SEED))
_DRAW_STEP = tl.constexpr(int(Column.DRAW_STEP))
_WINDOW = tl.constexpr(int(Column.WINDOW))
_NUM_HISTORY = tl.constexpr(int(Column.NUM_HISTORY))
_RING = tl.constexpr(int(Column.RING))
_TEMPERATURE = tl.constexpr(int(Rule.TEMPERATURE))
_TOP_P = tl.constexpr(int(Rule.TOP_P))
_LISTEN_PROB_SCALE = tl.constexpr(int(Rule.LISTEN_PROB_SCALE))
_REPETITION_PENALTY = tl.constexpr(int(Rule.REPETITION_PENALTY))
_LENGTH_PENALTY = tl.constexpr(int(Rule.LENGTH_PENALTY))
_CHUNK_EOS = tl.constexpr(int(Role.CHUNK_EOS))
_TURN_EOS = tl.constexpr(int(Role.TURN_EOS))
_TOKENIZER_EOS = tl.constexpr(int(Role.TOKENIZER_EOS))
_LISTEN = tl.constexpr(int(Role.LISTEN))
_TTS_BOS = tl.constexpr(int(Role.TTS_BOS))
_ID_MASK = tl.constexpr(ID_MASK)
_RECORDED = tl.constexpr(RECORDED)
_REPLACED = tl.constexpr(REPLACED)


@triton.jit
def _mix(x):  # type: ignore[no-untyped-def]
    """`counter_rng`'s avalanche, in uint32, whose products wrap."""
    x = x ^ (x >> 16)
    x = x * 0x85EBCA6B
    x = x ^ (x >> 13)
    x = x * 0xC2B2AE35
    return x ^ (x >> 16)


@triton.jit
def _log_exponential(seed, step, ids):  # type: ignore[no-untyped-def]
    """Logarithms of exponential numbers, of which `exponential_race` makes the reciprocals its weights."""
    high, low = ((seed >> 32) & 0xFFFFFFFF).to(tl.uint32), (seed & 0xFFFFFFFF).to(tl.uint32)
    key = _mix((step & 0xFFFFFFFF).to(tl.uint32) ^ _mix(low ^ _mix(high ^ 0x9E3779B9)))
    index = ids.to(tl.uint32)
    bits = _mix(index ^ _mix(key + index * 0x9E3779B1))
    uniform = tl.minimum((bits.to(tl.float32) + 0.5) * 2.3283064365386963e-10, 0.9999999403953552)
    # −log(1 − u) by its series where the difference would round away what decides the race.
    series = uniform * (1.0 + uniform * (0.5 + uniform * (0.3333333333333333 + uniform * 0.25)))
    return tl.log(tl.where(uniform < 0.01, series, -tl.log(1.0 - uniform)))


@triton.jit  # type: ignore[untyped-decorator]
def _race(  # type: ignore[no-untyped-def]
    logits, row_stride, seats, numbers, forbidden, scores, best_keys, best_ids, num_ids, num_blocks,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """One block of ids of one row: its best in the first draw, and the scores that the second starts from."""
    row, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    seat = numbers + tl.load(seats + row) * _NUM_COLUMNS
    ids = block * BLOCK + tl.arange(0, BLOCK)
    inside = ids < num_ids
    keys = tl.load(logits + row * row_stride + ids, mask=inside, other=_NEVER).to(tl.float32)
    is_forbidden = tl.load(forbidden + ids, mask=inside, other=1) != 0
    tl.store(scores + row * num_ids + ids, tl.where(is_forbidden, _NEVER, keys), mask=inside)
    if tl.load(seat + _IS_GREEDY) == 0:
        keys -= _log_exponential(tl.load(seat + _SEED), tl.load(seat + _DRAW_STEP), ids)
    best, place = tl.max(keys, 0, return_indices=True, return_indices_tie_break_left=True)
    tl.store(best_keys + row * num_blocks + block, best)
    tl.store(best_ids + row * num_blocks + block, tl.minimum(block * BLOCK + place, num_ids - 1).to(tl.int64))


@triton.jit
def _penalise(seats, numbers, rules, roles, scores, num_ids):  # type: ignore[no-untyped-def]
    """Repetition and length penalty, listen scale, in place for one row."""
    row = tl.program_id(0).to(tl.int64)
    seat = tl.load(seats + row)
    rule = rules + seat * _NUM_RULES
    scores += row * num_ids
    ring = tl.load(numbers + seat * _NUM_COLUMNS + _RING + tl.arange(0, _RING_IDS))
    seen = tl.div_rn(tl.load(scores + ring), tl.load(rule + _REPETITION_PENALTY))
    tl.debug_barrier()  # an id may stand in the ring more than once, and is divided once
    tl.store(scores + ring, seen)
    tl.debug_barrier()
    turn_eos, eos = scores + tl.load(roles + _TURN_EOS), scores + tl.load(roles + _TOKENIZER_EOS)
    score, penalty = tl.load(turn_eos), tl.load(rule + _LENGTH_PENALTY)
    scaled = tl.load(eos) * tl.load(rule + _LISTEN_PROB_SCALE)
    tl.debug_barrier()
    tl.store(turn_eos, tl.where(score > 0, tl.div_rn(score, penalty), score * penalty))
    tl.store(eos, scaled)


@triton.jit  # type: ignore[untyped-decorator]
def _choose(  # type: ignore[no-untyped-def]
    best_keys, best_ids, num_blocks, candidates, candidate_ids, num_candidates, seats, numbers, rules, roles, scores,
    num_ids, out, BLOCKS: tl.constexpr, CANDIDATES: tl.constexpr,
):  # fmt: skip
    """The decision of one row, from the blocks of its first draw and the candidates of its second."""
    row = tl.program_id(0).to(tl.int64)
    seat_index = tl.load(seats + row)
    seat, rule = numbers + seat_index * _NUM_COLUMNS, rules + seat_index * _NUM_RULES
    blocks = tl.arange(0, BLOCKS)
    keys = tl.load(best_keys + row * num_blocks + blocks, mask=blocks < num_blocks, other=_NEVER)
    block = tl.minimum(tl.argmax(keys, 0, tie_break_left=True), num_blocks - 1)
    first = tl.load(best_ids + row * num_blocks + block)
    places = tl.arange(0, CANDIDATES)
    inside = places < num_candidates
    raw = tl.load(candidates + row * num_candidates + places, mask=inside, other=_NEVER)
    ids = tl.load(candidate_ids + row * num_candidates + places, mask=inside, other=0)
    eos = tl.load(roles + _TOKENIZER_EOS)
    rank = tl.sum(((raw > tl.load(scores + row * num_ids + eos)) & inside).to(tl.int64), 0)
    if tl.load(seat + _IS_GREEDY) != 0:
        second = tl.min(tl.where((raw == tl.max(raw, 0)) & inside, ids, num_ids - 1), 0)
    else:
        wide = tl.div_rn(raw, tl.load(rule + _TEMPERATURE))
        top_k = tl.load(seat + _TOP_K)
        threshold = tl.max(tl.where(places == tl.minimum(top_k, num_candidates) - 1, wide, _NEVER), 0)
        wide = tl.where((top_k > 0) & (wide < threshold), _NEVER, wide)
        chance = tl.exp(wide - tl.max(wide, 0))
        chance = tl.div_rn(chance, tl.sum(chance, 0))
        top_p = tl.load(rule + _TOP_P)
        # What is summed up in front of a candidate; the one that crosses stays. No sum reaches 2.
        before = tl.cumsum(chance, 0) - chance
        wide = tl.where(before > tl.where(top_p > 0.0, top_p, 2.0), _NEVER, wide)
        race = wide - _log_exponential(tl.load(seat + _SEED), tl.load(seat + _DRAW_STEP) + 1, ids)
        place = tl.argmax(tl.where(inside, race, _NEVER), 0, tie_break_left=True)
        second = tl.sum(tl.where(places == place, ids, 0), 0)
    chunk_eos, listen = tl.load(roles + _CHUNK_EOS), tl.load(roles + _LISTEN)
    is_chunk_end = first == chunk_eos
    is_rank_answer = rank < tl.load(seat + _LISTEN_TOP_K)
    token = tl.where(is_chunk_end, chunk_eos, tl.where(is_rank_answer, eos, second))
    is_replaced = (token == listen) & (tl.load(seat + _IS_TURN_OPEN) != 0)
    fed = tl.where(is_replaced, tl.load(roles + _TTS_BOS), token)
    marks = tl.where(is_chunk_end | is_rank_answer, 0, _RECORDED) + tl.where(is_replaced, _REPLACED, 0)
    tl.store(out + row, fed + marks)


@triton.jit
def _advance(decisions, seats, numbers, roles):  # type: ignore[no-untyped-def]
    row = tl.program_id(0)
    decision = tl.load(decisions + row)
    seat = numbers + tl.load(seats + row) * _NUM_COLUMNS
    token = decision & _ID_MASK
    is_recorded = (decision & _RECORDED) != 0
    count = tl.load(seat + _NUM_HISTORY)
    if is_recorded:
        recorded = tl.where((decision & _REPLACED) != 0, tl.load(roles + _LISTEN), token)
        tl.store(seat + _RING + count % tl.load(seat + _WINDOW), recorded)
        tl.store(seat + _NUM_HISTORY, count + 1)
    if tl.load(seat + _IS_GREEDY) == 0:
        tl.store(seat + _DRAW_STEP, tl.load(seat + _DRAW_STEP) + 1 + is_recorded.to(tl.int64))
    tl.store(seat + _IS_TURN_OPEN, (token != tl.load(roles + _TURN_EOS)).to(tl.int64))


def decide(logits: Tensor, seats: Tensor, numbers: Tensor, rules: Tensor, roles: Tensor, forbidden: Tensor) -> Tensor:
    """Fast twin of `decide_rows` for rows that need no sort of the vocabulary.

    Args:
        logits: [B, V] of the model's dtype, of any row stride.
        seats: [B] int64.
        numbers, rules: [S, NUM_COLUMNS] int64 and [S, NUM_RULES] float32.
        roles: [5] int64.
        forbidden: [V] bool.

    Returns:
        Decisions, [B] int64.
    """
    (num_rows, num_ids), device = logits.shape, logits.device
    num_blocks = triton.cdiv(num_ids, _BLOCK)
    assert logits.stride(1) == 1
    assert numbers.is_contiguous()
    assert rules.is_contiguous()
    scores = torch.empty(num_rows, num_ids, device=device)
    best_keys = torch.empty(num_rows, num_blocks, device=device)
    best_ids = torch.empty(num_rows, num_blocks, dtype=torch.int64, device=device)
    out = torch.empty(num_rows, dtype=torch.int64, device=device)
    _race[(num_rows, num_blocks)](
        logits, logits.stride(0), seats, numbers, forbidden, scores, best_keys, best_ids, num_ids, num_blocks,
        BLOCK=_BLOCK, num_warps=8,
    )  # fmt: skip
    _penalise[(num_rows,)](seats, numbers, rules, roles, scores, num_ids, num_warps=4)
    candidates, candidate_ids = scores.topk(min(MAX_CANDIDATES, num_ids))
    _choose[(num_rows,)](
        best_keys, best_ids, num_blocks, candidates, candidate_ids, candidates.shape[1], seats, numbers, rules, roles,
        scores, num_ids, out, BLOCKS=triton.next_power_of_2(num_blocks), CANDIDATES=MAX_CANDIDATES, num_warps=4,
    )  # fmt: skip
    return out


def advance(decisions: Tensor, seats: Tensor, numbers: Tensor, roles: Tensor) -> None:
    """Fast twin of `advance_rows`: *decisions* and *seats* [B] int64, *numbers* in place."""
    _advance[(len(seats),)](decisions, seats, numbers, roles, num_warps=1)
