"""Triton: one codec id for each row, from scores to recorded state, in one launch.

The twin, `engine/talker_record.py`, takes about a hundred launches for it, as much time as a third of the layers.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from antiphon.layers.code_rows import FILLER, NUM_COLUMNS, NUM_RULES, POISON, RING_CODES, Column

_CODE = tl.constexpr(int(Column.CODE))
_NUM_HISTORY = tl.constexpr(int(Column.NUM_HISTORY))
_POSITION = tl.constexpr(int(Column.POSITION))
_LENGTH = tl.constexpr(int(Column.LENGTH))
_DRAW = tl.constexpr(int(Column.DRAW))
_STEP = tl.constexpr(int(Column.STEP))
_MIN_DRAWS = tl.constexpr(int(Column.MIN_DRAWS))
_MAX_DRAWS = tl.constexpr(int(Column.MAX_DRAWS))
_IS_DONE = tl.constexpr(int(Column.IS_DONE))
_SEED = tl.constexpr(int(Column.SEED))
_HAS_FILTERS = tl.constexpr(int(Column.HAS_FILTERS))
_IS_GREEDY = tl.constexpr(int(Column.IS_GREEDY))
_TOP_K = tl.constexpr(int(Column.TOP_K))
_MIN_KEEP = tl.constexpr(int(Column.MIN_KEEP))
_WINDOW = tl.constexpr(int(Column.WINDOW))
_RING = tl.constexpr(int(Column.RING))
_RING_CODES = tl.constexpr(RING_CODES)
_NUM_COLUMNS = tl.constexpr(int(NUM_COLUMNS))
_NUM_RULES = tl.constexpr(NUM_RULES)
_FILLER = tl.constexpr(FILLER)
_POISON = tl.constexpr(POISON)
_NEVER = tl.constexpr(float("-inf"))


@triton.jit
def _mix(x):  # type: ignore[no-untyped-def]
    """`counter_rng`'s avalanche of 32 bits held in int64."""
    x = x ^ (x >> 16)
    x = (x * 0x85EBCA6B) & 0xFFFFFFFF
    x = x ^ (x >> 13)
    x = (x * 0xC2B2AE35) & 0xFFFFFFFF
    return x ^ (x >> 16)


@triton.jit
def _exponential(seed, draw, ids):  # type: ignore[no-untyped-def]
    """Exponential numbers, as `exponential_race` makes them, for scalars *seed*, *draw* and a vector *ids* (int64)."""
    key = _mix((seed & 0xFFFFFFFF) ^ _mix(((seed >> 32) & 0xFFFFFFFF) ^ 0x9E3779B9))
    key = _mix((draw & 0xFFFFFFFF) ^ key)
    bits = _mix(ids ^ _mix((key + ids * 0x9E3779B1) & 0xFFFFFFFF))
    uniform = tl.minimum((bits.to(tl.float32) + 0.5) * 2.3283064365386963e-10, 0.9999999403953552)
    # −log(1 − uniform) by hand: the hardware's logarithm is too coarse near 1, where the race is decided.
    rest = 1.0 - uniform
    word = rest.to(tl.int32, bitcast=True)
    exponent = (word >> 23) - 127
    mantissa = ((word & 0x7FFFFF) | 0x3F800000).to(tl.float32, bitcast=True)
    is_high = mantissa > 1.4142135
    mantissa = tl.where(is_high, mantissa * 0.5, mantissa)
    exponent = tl.where(is_high, exponent + 1, exponent)
    is_small = uniform < 0.25
    f = tl.where(is_small, -uniform, mantissa - 1.0)
    scale = tl.where(is_small, 0, exponent).to(tl.float32)
    s = tl.div_rn(f, 2.0 + f)
    z = s * s
    series = s * (2.0 + z * (0.6666666666666666 + z * (0.4 + z * (0.2857142857142857 + z * 0.2222222222222222))))
    return -(scale * 0.6931471805599453 + series)


@triton.jit  # type: ignore[untyped-decorator]
def _sample(  # type: ignore[no-untyped-def]
    logits, rows, rules, out, out_stride, NUM_IDS: tl.constexpr, BLOCK: tl.constexpr, HAS_FED: tl.constexpr
):
    index = tl.program_id(0)
    row = rows + index * _NUM_COLUMNS
    if tl.load(row + _IS_DONE) != 0:
        tl.store(out + index * out_stride, tl.full((), _FILLER, tl.int64))
    else:
        rule = rules + index * _NUM_RULES
        temperature = tl.load(rule)
        penalty = tl.load(rule + 1)
        num_history = tl.load(row + _NUM_HISTORY)
        step = tl.load(row + _STEP)
        draw = tl.load(row + _DRAW)
        ids = tl.arange(0, BLOCK)
        inside = ids < NUM_IDS
        scores = tl.load(logits + index * NUM_IDS + ids, mask=inside, other=0.0).to(tl.float32)
        scores = tl.div_rn(scores, temperature)
        strength = tl.full((BLOCK,), 1.0, tl.float32)
        seen = tl.minimum(num_history, tl.load(row + _WINDOW))
        for place in tl.static_range(_RING_CODES):
            # Without a negative dividend, whose remainder C and Python take differently.
            age = (num_history + (_RING_CODES - 1 - place)) % _RING_CODES
            strength = tl.where((ids == tl.load(row + _RING + place)) & (age < seen), strength * penalty, strength)
        scores = tl.where(scores < 0, scores * strength, tl.div_rn(scores, strength))
        scores = tl.where(inside, scores, _NEVER)
        top = tl.max(scores, 0)
        total = tl.sum(tl.exp(scores - top), 0)
        is_broken = (total > 0.0) == 0  # NaN is not above zero
        if (tl.load(row + _HAS_FILTERS) != 0) & (num_history > 0) & (total > 0.0):
            # From the largest score down, one group of equal scores after another, until top-p or top-k cuts.
            tail = tl.load(rule + 2)
            top_k = tl.load(row + _TOP_K).to(tl.float32)
            min_keep = tl.load(row + _MIN_KEEP).to(tl.float32)
            cut = tl.full((), float("inf"), tl.float32)
            num_above = tl.full((), 0.0, tl.float32)
            num_equal = tl.full((), 0.0, tl.float32)
            allowed = tl.full((), 0.0, tl.float32)
            before = tl.full((), 0.0, tl.float32)
            is_open = top_k > 0.0
            while is_open:
                cut = tl.max(tl.where(scores < cut, scores, _NEVER), 0)
                num_equal = tl.sum((scores == cut).to(tl.float32), 0)
                prob = tl.exp(cut - top) / total
                allowed = tl.maximum(tl.ceil((1.0 - tail - before) / prob), min_keep - num_above)
                num_above += num_equal
                before += num_equal * prob
                is_open = (allowed >= num_equal) & (num_above < top_k) & (num_above < NUM_IDS)
            is_equal = scores == cut
            # Of equal scores the larger ids stay.
            num_larger = num_equal - tl.cumsum(is_equal.to(tl.float32), 0)
            scores = tl.where((scores > cut) | (is_equal & (num_larger < allowed)), scores, _NEVER)
        if step < tl.load(row + _MIN_DRAWS):
            scores = tl.where(ids == NUM_IDS - 1, _NEVER, scores)
        is_broken = is_broken | (tl.max(scores, 0) == _NEVER)
        chance = tl.exp(scores - top)
        if tl.load(row + _IS_GREEDY) == 0:
            chance = chance / _exponential(tl.load(row + _SEED), draw, ids.to(tl.int64))
        chance = tl.where(inside, chance, -1.0)
        code = tl.argmax(chance, 0).to(tl.int64)
        is_end = (code == NUM_IDS - 1) | is_broken
        if is_end == 0:
            tl.store(row + _CODE, code)
            tl.store(row + _RING + num_history % _RING_CODES, code)
            tl.store(row + _NUM_HISTORY, num_history + 1)
        if HAS_FED:
            tl.store(row + _POSITION, tl.load(row + _POSITION) + 1)
            tl.store(row + _LENGTH, tl.load(row + _LENGTH) + 1)
        tl.store(row + _DRAW, draw + 1)
        tl.store(row + _STEP, step + 1)
        is_done = is_end | (step + 1 >= tl.load(row + _MAX_DRAWS))
        tl.store(row + _IS_DONE, is_done.to(tl.int64))
        tl.store(out + index * out_stride, tl.where(is_broken, tl.full((), _POISON, tl.int64), code))


def sample_codes(logits: Tensor, rows: Tensor, rules: Tensor, out: Tensor, *, has_fed: bool) -> None:
    """Fast twin of `draw_and_record`.

    Args:
        logits: [B, V] of the model's dtype.
        rows: [B, NUM_COLUMNS] int64, changed in place.
        rules: [B, NUM_RULES] float32.
        out: the codes, [B] int64 of any stride.
        has_fed: whether the last code is in the cache now.
    """
    num_rows, num_ids = logits.shape
    assert rows.is_contiguous()
    assert rules.is_contiguous()
    assert logits.is_contiguous()
    assert out.dtype == torch.int64
    _sample[(num_rows,)](
        logits,
        rows,
        rules,
        out,
        out.stride(0),
        NUM_IDS=num_ids,
        BLOCK=triton.next_power_of_2(num_ids),
        HAS_FED=has_fed,
        num_warps=16 if num_ids > 1024 else 4,
    )
