"""Triton: the flow's norms over hidden channels, each in one launch with what stands before and after it.

Before: the gated branch that is added to the residual stream. After: Mish, and the layout that a causal convolution of
three frames takes as a matrix product, with the kept past frames of every stream read and renewed in place. The twins
are the methods of the blocks in `models/code2wav/batched/solver.py`.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from antiphon.layers.flow_rows import FlowPlaces

_WINDOW = tl.constexpr(3)  # frames that a convolution sees
_NUM_PAST = tl.constexpr(2)  # of them before its own
_NUM_GUIDANCE = tl.constexpr(2)


@triton.jit  # type: ignore[untyped-decorator]
def _norm(  # type: ignore[no-untyped-def]
    x,
    branch,
    gate,
    scale,
    shift,
    out,
    past,
    slots,
    num_new,
    eps,
    SIZE: tl.constexpr,
    BLOCK: tl.constexpr,
    HAS_BRANCH: tl.constexpr,
    HAS_MISH: tl.constexpr,
    HAS_WINDOWS: tl.constexpr,
):
    guidance = tl.program_id(0)
    frame = tl.program_id(1)
    stream = tl.program_id(2)
    num_frames = tl.num_programs(1)
    row = ((stream * num_frames + frame) * _NUM_GUIDANCE + guidance).to(tl.int64)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < SIZE
    value = tl.load(x + row * SIZE + offsets, mask=inside, other=0.0)
    if HAS_BRANCH:
        added = tl.load(branch + row * SIZE + offsets, mask=inside, other=0.0)
        value += added * tl.load(gate + offsets, mask=inside, other=0.0)
        tl.store(x + row * SIZE + offsets, value, mask=inside)
    centred = tl.where(inside, value - tl.sum(value, 0) / SIZE, 0.0)
    normed = centred * tl.rsqrt(tl.sum(centred * centred, 0) / SIZE + eps)
    y = normed * tl.load(scale + offsets, mask=inside, other=0.0) + tl.load(shift + offsets, mask=inside, other=0.0)
    if HAS_MISH:
        # tanh(log(1 + e)) = n / (n + 2) with n = e · (e + 2); from 20 on it is 1, and further e · e would overflow.
        e = tl.exp(tl.minimum(y, 20.0))
        n = e * (e + 2.0)
        y = y * (n / (n + 2.0))
    if HAS_WINDOWS:
        # Frame f is the latest of window f, the middle of f + 1 and the earliest of f + 2.
        line = out + row * _WINDOW * SIZE + offsets
        after = _NUM_GUIDANCE * _WINDOW * SIZE
        tl.store(line + 2 * SIZE, y, mask=inside)
        if frame + 1 < num_frames:
            tl.store(line + after + SIZE, y, mask=inside)
        if frame + 2 < num_frames:
            tl.store(line + 2 * after, y, mask=inside)
        # The program whose frame becomes a past one also places the past frame that it replaces: nobody else reads it.
        new = tl.load(num_new + stream).to(tl.int32)
        place = frame - tl.maximum(new - _NUM_PAST, 0)
        if (place == 0) | (place == 1):
            entry = past + ((tl.load(slots + stream) * _NUM_PAST + place) * _NUM_GUIDANCE + guidance) * SIZE + offsets
            old = tl.load(entry, mask=inside, other=0.0)
            line += (place - frame) * after
            tl.store(line, old, mask=inside)
            if place == 1:
                tl.store(line - after + SIZE, old, mask=inside)
            if new > 0:
                tl.store(entry, y, mask=inside)
    else:
        tl.store(out + row * SIZE + offsets, y, mask=inside)


def add_norm(x: Tensor, branch: Tensor | None, gate: Tensor, scale: Tensor, shift: Tensor, eps: float) -> Tensor:
    """Add *branch* · *gate* to *x* [B, T, 2, hidden] in place, if there is one; returns the norm of the sum."""
    out = torch.empty_like(x)
    _launch(x, branch, gate, scale, shift, eps, out, None, None, has_mish=False)
    return out


def add_norm_windows(
    x: Tensor,
    branch: Tensor,
    gate: Tensor,
    scale: Tensor,
    shift: Tensor,
    eps: float,
    past: Tensor,
    places: FlowPlaces,
) -> Tensor:
    """`add_norm` laid out as the input of a causal convolution.

    Args:
        past: the convolution's last inputs in all slots, [S, 2 frames, 2, hidden]; renewed in place.

    Returns:
        [B, T, 2, 3 · hidden]: the frame before last, the last and the frame itself.
    """
    out = x.new_empty(*x.shape[:-1], _WINDOW.value * x.shape[-1])
    _launch(x, branch, gate, scale, shift, eps, out, past, places, has_mish=False)
    return out


def norm_mish_windows(
    x: Tensor, scale: Tensor, shift: Tensor, eps: float, past: Tensor, places: FlowPlaces
) -> Tensor:  # fmt: skip
    """Mish of the norm of *x* [B, T, 2, hidden], laid out as by `add_norm_windows`."""
    out = x.new_empty(*x.shape[:-1], _WINDOW.value * x.shape[-1])
    _launch(x, None, scale, scale, shift, eps, out, past, places, has_mish=True)
    return out


def _launch(
    x: Tensor,
    branch: Tensor | None,
    gate: Tensor,
    scale: Tensor,
    shift: Tensor,
    eps: float,
    out: Tensor,
    past: Tensor | None,
    places: FlowPlaces | None,
    *,
    has_mish: bool,
) -> None:
    num_streams, num_frames, num_guidance, size = x.shape
    assert num_guidance == _NUM_GUIDANCE.value
    assert num_frames >= _NUM_PAST.value
    assert x.is_contiguous()
    assert branch is None or (branch.is_contiguous() and branch.shape == x.shape)
    assert past is None or (past.is_contiguous() and past.shape[1:] == (_NUM_PAST.value, num_guidance, size))
    block = triton.next_power_of_2(size)
    _norm[(num_guidance, num_frames, num_streams)](
        x,
        x if branch is None else branch,
        gate,
        scale,
        shift,
        out,
        x if past is None else past,
        x if places is None else places.slots,
        x if places is None else places.num_new,
        eps,
        SIZE=size,
        BLOCK=block,
        HAS_BRANCH=branch is not None,
        HAS_MISH=has_mish,
        HAS_WINDOWS=past is not None,
        num_warps=max(1, min(8, block // 128)),
    )
