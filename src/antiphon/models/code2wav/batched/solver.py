"""The flow's ODE for a batch of streams, all Euler steps in one go, on fixed buffers.

The twin of `ConditionalFlow.solve_chunk` (model specification, section 4.5), with what does not depend on data made
once: time steps, modulation (as weights of the norms), the fused projection of q, k and v. The causal convolutions
are matrix products over three shifted copies, and known mel, zero after the prompt, is left out of the input.

Bytes moved per chunk and stream, real sizes, float32, capacity C: each of the 160 (step, block) pairs copies the slot's
row of C · 8,192 bytes out of the cache (read and write) and attends to the copy (read): 160 · 3 · 4.2 MB = 2.0 GB for
C = 512, 0.4 ms of an H200's memory; new entries are 50 rows of 8,192 bytes. Nothing is ever shifted or cloned.

With kernels a block is 12 or 13 launches and reads the slots in place, a third of those bytes: modulated norm, fused
projection, norm and store, attention (in two launches where few streams leave the device empty), output projection;
gated sum and norm into windows, product, norm and Mish into windows, product; gated sum and norm, product, GELU,
product.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor
from torch.nn.functional import gelu, layer_norm, linear, mish

from antiphon.layers.flow_kernels import FlowKernels
from antiphon.layers.flow_rows import FlowPlaces, FlowRows
from antiphon.models.code2wav.batched.state import NUM_GUIDANCE, FlowState
from antiphon.models.code2wav.cfm import ConditionalFlow, euler_steps, time_grid
from antiphon.models.code2wav.dit import CONV_CONTEXT, DiTBlock

ADA_EPS = 1e-6  # of the norms that the modulation scales
NORM_EPS = 1e-5  # of the norms with weights of their own


@dataclass(frozen=True)
class _Branch:
    """Modulation of one branch at one step: a norm's weight and bias, and the gate; [hidden] each."""

    scale: Tensor
    shift: Tensor
    gate: Tensor

    def norm(self, x: Tensor) -> Tensor:
        return layer_norm(x, x.shape[-1:], self.scale, self.shift, ADA_EPS)

    def add(self, x: Tensor, branch: Tensor) -> Tensor:
        return torch.addcmul(x, branch, self.gate)


@dataclass(frozen=True)
class _Step:
    """What one Euler step knows beforehand."""

    length: float
    blocks: list[tuple[_Branch, _Branch, _Branch]]  # attention, MLP, convolution, as they are stored
    final: _Branch  # its gate is unused


class _Block:
    """Weights of one DiT block, packed."""

    def __init__(self, block: DiTBlock) -> None:
        attn, conv = block.attn, block.conv.block
        self.num_heads, self.head_dim = attn.num_heads, attn.head_dim
        split = (attn.num_heads, attn.head_dim)
        projections = (attn.to_q, attn.to_k, attn.to_v)
        # Output channels run head by head, q then k then v, so that an entry of the cache is a slice of them.
        self.qkv_weight = torch.stack([p.weight.view(*split, -1) for p in projections], dim=1).flatten(0, 2)
        self.qkv_bias = torch.stack([p.bias.view(*split) for p in projections], dim=1).flatten(0, 2)
        self.qk_scale = torch.stack((attn.q_norm.weight, attn.k_norm.weight))
        self.qk_shift = torch.stack((attn.q_norm.bias, attn.k_norm.bias))
        self.proj = attn.proj
        self.conv_weights = [_as_product(conv.get_parameter(f"{name}.weight")) for name in ("1", "6")]
        self.conv_biases = [conv.get_parameter(f"{name}.bias") for name in ("1", "6")]
        self.conv_scale, self.conv_shift = conv.get_parameter("3.weight"), conv.get_parameter("3.bias")
        self.mlp = block.mlp

    def project(self, x: Tensor) -> Tensor:
        """Queries, keys and values of *x* [B, T, 2, hidden]: [B, T, 2, H, 3, D]."""
        return linear(x, self.qkv_weight, self.qkv_bias).view(*x.shape[:-1], self.num_heads, 3, self.head_dim)

    def attend(self, x: Tensor, cache: Tensor, slot: Tensor, writes: Tensor, bias: Tensor) -> Tensor:
        """*x* [B, T, 2, hidden] over its stream's entries of *cache* [S, 2, H, C, 2, D], its own included.

        *writes* [B · T · 2 · H]: where each head's new entries go; *bias* [B · 2H, 1, C]: 0 or −∞.
        Plain products: with 50 queries the fused attention of torch takes 61 µs at batch 1 on an H200, these 18 µs.
        """
        num_streams, num_frames = x.shape[:2]
        qkv = self.project(x)
        normed = layer_norm(qkv[..., :2, :], (self.head_dim,), eps=NORM_EPS)
        torch.addcmul(self.qk_shift, normed, self.qk_scale, out=qkv[..., :2, :])
        entry_size = 2 * self.head_dim
        cache.view(-1, entry_size).index_copy_(0, writes, qkv[..., 1:, :].flatten(4).flatten(0, 3))
        # Guidance rows count as further heads.
        kv = _rows_of(cache, slot).view(num_streams * NUM_GUIDANCE * self.num_heads, -1, entry_size)
        keys, values = kv.chunk(2, dim=2)
        q = qkv[..., 0, :].permute(0, 2, 3, 1, 4).reshape(-1, num_frames, self.head_dim)
        scores = torch.baddbmm(bias, q, keys.transpose(1, 2), alpha=self.head_dim**-0.5)
        mixed = torch.bmm(scores.softmax(-1), values)
        mixed = mixed.view(num_streams, NUM_GUIDANCE, self.num_heads, num_frames, self.head_dim)
        out: Tensor = self.proj(mixed.permute(0, 3, 1, 2, 4).reshape(num_streams, num_frames, NUM_GUIDANCE, -1))
        return out

    def convolve(self, x: Tensor, cache: Tensor, slot: Tensor, row: Tensor, kept: Tensor) -> Tensor:
        """*x* [B, T, 2, hidden] after the past inputs in *cache* [2, S, 2 frames, 2, hidden].

        *kept* [B, 2]: which inputs, counted from the first past one, are the past of the next chunk; *row* [B, 1].
        """
        past = cache.index_select(1, slot)
        inputs = x.new_empty(2, x.shape[0], CONV_CONTEXT + x.shape[1], *x.shape[2:])
        torch.cat((past[0], x), dim=1, out=inputs[0])
        inner = layer_norm(self._product(inputs[0], 0), x.shape[-1:], self.conv_scale, self.conv_shift, NORM_EPS)
        torch.cat((past[1], mish(inner)), dim=1, out=inputs[1])
        cache.index_copy_(1, slot, inputs[:, row, kept])
        return self._product(inputs[1], 1)

    def _product(self, x: Tensor, index: int) -> Tensor:
        windows = torch.cat((x[:, :-2], x[:, 1:-1], x[:, 2:]), dim=-1)
        return linear(windows, self.conv_weights[index], self.conv_biases[index])

    def feed_forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.mlp.fc2(gelu(self.mlp.fc1(x), approximate="tanh"))
        return out


def _rows_of(cache: Tensor, slot: Tensor) -> Tensor:
    """Copies of the slots' rows of *cache* [S, …]: [B, row]. Moved in pieces of 16 bytes, twice as fast as of 4."""
    flat = cache.view(cache.shape[0], -1)
    if flat.shape[1] % 4 or flat.dtype != torch.float32:
        return flat.index_select(0, slot)
    return flat.view(torch.complex128).index_select(0, slot).view(torch.float32)


def _as_product(kernel: Tensor) -> Tensor:
    """Weight of a convolution [out, in, 3] for inputs [earliest ‖ middle ‖ latest]: [out, 3 · in]."""
    return kernel.permute(0, 2, 1).flatten(1).contiguous()


class _TwinPass:
    """The blocks of one launch in plain torch; the oracle of the kernels."""

    def __init__(self, blocks: Sequence[_Block], rows: FlowRows, state: FlowState) -> None:
        self.blocks, self.state, self.slot = blocks, state, rows.slot
        device, num_heads = rows.slot.device, NUM_GUIDANCE * blocks[0].num_heads
        heads = rows.slot[:, None] * num_heads + torch.arange(num_heads, device=device)
        size = state.capacity.solver_size
        self.writes = (heads[:, None] * size + rows.solver_writes[:, :, None]).flatten()  # [B, T, heads]
        bias = state.solver_kv.new_zeros(rows.solver_seen.shape).masked_fill_(rows.solver_seen == 0, -torch.inf)
        self.bias = bias[:, None, None].expand(-1, num_heads, -1, -1).flatten(0, 1)
        self.row = torch.arange(len(rows.slot), device=device)[:, None]
        self.kept = 2 * rows.num_voiced[:, None] + torch.arange(CONV_CONTEXT, device=device)

    def run(self, hidden: Tensor, index: int, step: _Step) -> Tensor:
        """*hidden* [B, T, 2, hidden] through all blocks at step *index*, and the final norm."""
        for number, (block, (attn, mlp, conv)) in enumerate(zip(self.blocks, step.blocks, strict=True)):
            kv, past = self.state.solver_kv[index, number], self.state.solver_conv[index, number]
            hidden = attn.add(hidden, block.attend(attn.norm(hidden), kv, self.slot, self.writes, self.bias))
            hidden = conv.add(hidden, block.convolve(conv.norm(hidden), past, self.slot, self.row, self.kept))
            hidden = mlp.add(hidden, block.feed_forward(mlp.norm(hidden)))
        return step.final.norm(hidden)


class _KernelPass:
    """The blocks of one launch through kernels."""

    def __init__(self, kernels: FlowKernels, blocks: Sequence[_Block], rows: FlowRows, state: FlowState) -> None:
        self.norms, self.attention = kernels.norms, kernels.attention
        self.blocks, self.state, self.places = blocks, state, FlowPlaces.of(rows)
        self.is_tf32 = torch.backends.cuda.matmul.fp32_precision == "tf32"

    def run(self, hidden: Tensor, index: int, step: _Step) -> Tensor:
        """As `_TwinPass.run`; *hidden* is changed. Each norm first adds the branch before it."""
        norms, places = self.norms, self.places
        branch, gate = None, step.final.gate
        for number, (block, (attn, mlp, conv)) in enumerate(zip(self.blocks, step.blocks, strict=True)):
            kv, past = self.state.solver_kv[index, number], self.state.solver_conv[index, number]
            qkv = block.project(norms.add_norm(hidden, branch, gate, attn.scale, attn.shift, ADA_EPS))
            self.attention.norm_store(qkv, block.qk_scale, block.qk_shift, NORM_EPS, kv, places)
            mixed = block.proj(self.attention.attend(qkv, kv, places, tf32=self.is_tf32))
            windows = norms.add_norm_windows(
                hidden, mixed, attn.gate, conv.scale, conv.shift, ADA_EPS, past[0], places
            )  # fmt: skip
            inner = linear(windows, block.conv_weights[0], block.conv_biases[0])
            windows = norms.norm_mish_windows(inner, block.conv_scale, block.conv_shift, NORM_EPS, past[1], places)
            convolved = linear(windows, block.conv_weights[1], block.conv_biases[1])
            normed = norms.add_norm(hidden, convolved, conv.gate, mlp.scale, mlp.shift, ADA_EPS)
            branch, gate = block.feed_forward(normed), mlp.gate
        return norms.add_norm(hidden, branch, gate, step.final.scale, step.final.shift, ADA_EPS)


class BatchedSolver:
    """Solves chunks of any streams with *num_steps* steps. One serves all capacities and widths.

    Args:
        noise: the start noise, [1, mel, n] on the device.
        kernels: run the blocks through these; without them, through their torch twins.
    """

    def __init__(
        self, decoder: ConditionalFlow, num_steps: int, noise: Tensor, kernels: FlowKernels | None = None
    ) -> None:
        estimator = decoder.estimator
        self.kernels = kernels
        self.guidance = decoder.guidance
        self.blocks = [_Block(cast(DiTBlock, block)) for block in estimator.blocks]
        self.output = estimator.final_layer.linear
        self.num_mel_bins = estimator.config.out_channels
        # Input channels: state of the flow, encoder output, speaker, known mel.
        columns = torch.split(estimator.in_proj.weight, self.num_mel_bins, dim=1)
        self.state_weight, self.mu_weight, self.speaker_weight = (part.contiguous() for part in columns[:3])
        self.in_bias = estimator.in_proj.bias
        self.noise = noise[0].T.contiguous()  # [n, mel]
        times, lengths = euler_steps(time_grid(num_steps))
        modulation = estimator.modulation(times.to(noise.device))
        self.steps = [
            _Step(
                length,
                [_branches(modulation.blocks[index, block]) for block in range(len(self.blocks))],
                _final(modulation.final[index]),
            )
            for index, length in enumerate(lengths)
        ]

    def __call__(self, mu: Tensor, rows: FlowRows, state: FlowState) -> Tensor:
        """Mel [B, T, mel] for encoder output *mu* [B, T, mel]; caches of the rows' slots are advanced."""
        ramp = torch.arange(mu.shape[1], device=mu.device)
        x = self.noise[rows.noise_offset[:, None] + ramp]
        condition = linear(mu, self.mu_weight, self.in_bias)
        condition = condition + linear(state.speaker[rows.slot], self.speaker_weight)[:, None]
        # Rows of a stream lie side by side: conditional, then unconditional, which knows nothing but its own state.
        known = torch.stack((condition, self.in_bias.expand_as(condition)), dim=2)
        blocks: _KernelPass | _TwinPass = _TwinPass(self.blocks, rows, state)
        if self.kernels:
            blocks = _KernelPass(self.kernels, self.blocks, rows, state)
        for index, step in enumerate(self.steps):
            hidden = known + linear(x, self.state_weight)[:, :, None]
            velocity = self.output(blocks.run(hidden, index, step))
            # (1 + g) · conditional − g · unconditional
            guided = torch.lerp(velocity[:, :, 1], velocity[:, :, 0], 1.0 + self.guidance)
            x = torch.add(x, guided, alpha=step.length)
        return x


def _branches(modulation: Tensor) -> tuple[_Branch, _Branch, _Branch]:
    parts = [part.contiguous() for part in modulation.chunk(9)]
    first, second, third = (
        _Branch(1 + parts[place + 1], parts[place], parts[place + 2]) for place in (0, 3, 6)
    )  # stored shift, scale, gate
    return first, second, third


def _final(modulation: Tensor) -> _Branch:
    shift, scale = modulation.chunk(2)
    return _Branch(1 + scale, shift.contiguous(), torch.ones_like(scale))
