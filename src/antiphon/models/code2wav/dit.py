"""The flow model's estimator: a diffusion transformer with adaptive norms and a causal convolution in every block.

Model specification, section 4.5. The blocks know neither the ODE step nor where keys live: modulation comes in as data
(it depends on the step alone, so it can be tabled), and attention is the caller's.
"""

from dataclasses import dataclass
from math import log
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, layer_norm, mish, scaled_dot_product_attention

from antiphon.config.checkpoint import DiTConfig

CONV_CONTEXT = 2  # frames that each causal convolution (kernel 3) remembers
NUM_TIME_FEATURES = 256


class StreamAttend(Protocol):
    """How one block attends; takes its index and q, k, v [R, H, T, D] of the new frames, returns [R, H, T, D]."""

    def __call__(self, block: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor: ...


class FullAttend:
    """Every frame sees every frame of its own row, except masked ones."""

    def __init__(self, key_mask: Tensor | None = None) -> None:
        """*key_mask*: [R, T] bool, true where a frame counts."""
        self.mask = None if key_mask is None else key_mask[:, None, None, :]

    def __call__(self, block: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:  # noqa: ARG002 - the same for all blocks
        return scaled_dot_product_attention(q, k, v, attn_mask=self.mask)


@dataclass(frozen=True)
class Modulation:
    """Shifts, scales and gates of every block, for each of R rows (or one for all of them)."""

    blocks: Tensor  # [R, depth, 9 · hidden]: shift, scale, gate of attention, then of the MLP, then of the convolution
    final: Tensor  # [R, 2 · hidden]: shift, scale

    def row(self, index: int) -> "Modulation":
        return Modulation(self.blocks[index : index + 1], self.final[index : index + 1])


class TimestepEmbedder(nn.Module):
    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(NUM_TIME_FEATURES, hidden), nn.SiLU(), nn.Linear(hidden, hidden))

    def forward(self, t: Tensor) -> Tensor:
        """Embed flow times *t* [R] in [0, 1]: [R, hidden].

        Angles are computed in float32 whatever the weights' type.
        """
        half = NUM_TIME_FEATURES // 2
        # exp(−ln(10000)·k/128) in float32: the power form moves the output by 2e-5.
        rate = torch.exp(torch.arange(half, dtype=torch.float32, device=t.device) * -log(10_000.0) / half)
        angle = (t.float() * 1000.0)[:, None] * rate[None, :]
        features = torch.cat((angle.cos(), angle.sin()), dim=-1)
        out: Tensor = self.mlp(features.to(next(self.mlp.parameters()).dtype))
        return out


def modulate(x: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    """LayerNorm without weights (eps 1e-6), then the row's scale and shift.

    *x* [R, T, hidden], the others [R, 1, hidden].
    """
    return layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + scale) + shift


class Attention(nn.Module):
    """Projections and per-head LayerNorms (with bias) on q and k. There is no positional encoding at all."""

    def __init__(self, config: DiTConfig) -> None:
        super().__init__()
        inner = config.num_heads * config.head_dim
        self.num_heads, self.head_dim = config.num_heads, config.head_dim
        self.to_q = nn.Linear(config.hidden_size, inner)
        self.to_k = nn.Linear(config.hidden_size, inner)
        self.to_v = nn.Linear(config.hidden_size, inner)
        self.q_norm = nn.LayerNorm(config.head_dim, eps=1e-5)
        self.k_norm = nn.LayerNorm(config.head_dim, eps=1e-5)
        self.proj = nn.Linear(inner, config.hidden_size)

    def forward(self, x: Tensor, block: int, attend: StreamAttend) -> Tensor:
        q = self.q_norm(self._heads(self.to_q(x)))
        k = self.k_norm(self._heads(self.to_k(x)))
        mixed = attend(block, q, k, self._heads(self.to_v(x)))
        out: Tensor = self.proj(mixed.transpose(1, 2).flatten(2))
        return out

    def _heads(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self.num_heads, self.head_dim).transpose(1, 2)


class ConvBlock(nn.Module):
    """Causal convolution, LayerNorm, Mish, causal convolution: the only part that knows the order of frames."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        # The numbers are the places in the checkpoint's sequence; what stood between them has no weights.
        self.block = nn.ModuleDict(
            {
                "1": nn.Conv1d(hidden, hidden, CONV_CONTEXT + 1),
                "3": nn.LayerNorm(hidden, eps=1e-5),
                "6": nn.Conv1d(hidden, hidden, CONV_CONTEXT + 1),
            }
        )

    def forward(self, x: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        """*x* [R, T, hidden]; *past* [R, 2 · hidden, 2], the last inputs of both convolutions. Returns both anew."""
        first_past, second_past = past.chunk(2, dim=1)
        first = torch.cat((first_past, x.transpose(1, 2)), dim=2)
        inner = mish(self.block["3"](self.block["1"](first).transpose(1, 2)))
        second = torch.cat((second_past, inner.transpose(1, 2)), dim=2)
        kept = torch.cat((first[:, :, -CONV_CONTEXT:], second[:, :, -CONV_CONTEXT:]), dim=1)
        return self.block["6"](second).transpose(1, 2), kept


class MLP(nn.Module):
    def __init__(self, hidden: int, inner: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(hidden, inner)
        self.fc2 = nn.Linear(inner, hidden)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.fc2(gelu(self.fc1(x), approximate="tanh"))
        return out


class DiTBlock(nn.Module):
    def __init__(self, config: DiTConfig) -> None:
        super().__init__()
        hidden = config.hidden_size
        self.attn = Attention(config)
        self.mlp = MLP(hidden, int(hidden * config.mlp_ratio))
        self.conv = ConvBlock(hidden)
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(hidden, 9 * hidden))

    def forward(
        self, x: Tensor, modulation: Tensor, block: int, attend: StreamAttend, conv_past: Tensor
    ) -> tuple[Tensor, Tensor]:
        # Trap: the branches run attention → convolution → MLP, but the modulation is stored attention, MLP,
        # convolution.
        (
            attn_shift, attn_scale, attn_gate,
            mlp_shift, mlp_scale, mlp_gate,
            conv_shift, conv_scale, conv_gate,
        ) = modulation[:, None].chunk(9, dim=-1)  # fmt: skip
        x = x + attn_gate * self.attn(modulate(x, attn_shift, attn_scale), block, attend)
        convolved, conv_kept = self.conv(modulate(x, conv_shift, conv_scale), conv_past)
        x = x + conv_gate * convolved
        return x + mlp_gate * self.mlp(modulate(x, mlp_shift, mlp_scale)), conv_kept


class FinalLayer(nn.Module):
    def __init__(self, hidden: int, out_channels: int) -> None:
        super().__init__()
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(hidden, 2 * hidden))
        self.linear = nn.Linear(hidden, out_channels)

    def forward(self, x: Tensor, modulation: Tensor) -> Tensor:
        shift, scale = modulation[:, None].chunk(2, dim=-1)
        out: Tensor = self.linear(modulate(x, shift, scale))
        return out


class DiT(nn.Module):
    """Noisy mel, conditions and time in, velocity out. Sub-module names are the checkpoint's."""

    def __init__(self, config: DiTConfig) -> None:
        super().__init__()
        self.config = config
        self.t_embedder = TimestepEmbedder(config.hidden_size)
        self.in_proj = nn.Linear(config.in_channels, config.hidden_size)
        self.blocks = nn.ModuleList(DiTBlock(config) for _ in range(config.depth))
        self.final_layer = FinalLayer(config.hidden_size, config.out_channels)

    def modulation(self, t: Tensor) -> Modulation:
        """The modulation of every block at flow times *t* [R]."""
        embedded = self.t_embedder(t)
        # A ModuleList does not tell the type of what it holds.
        blocks = [block.adaLN_modulation(embedded) for block in self.blocks]  # type: ignore[operator]
        return Modulation(torch.stack(blocks, dim=1), self.final_layer.adaLN_modulation(embedded))

    def empty_conv_past(self, num_rows: int) -> Tensor:
        """What the convolutions remember before the first frame: zeros, [depth, R, 2 · hidden, 2]."""
        config = self.config
        return self.in_proj.weight.new_zeros(config.depth, num_rows, 2 * config.hidden_size, CONV_CONTEXT)

    def forward(
        self,
        x: Tensor,
        mu: Tensor,
        speaker: Tensor,
        cond: Tensor,
        modulation: Modulation,
        attend: StreamAttend,
        conv_past: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Estimate the velocity of R rows of T new frames.

        Args:
            x: current state of the flow, [R, mel, T].
            mu: encoder output, [R, mel, T].
            speaker: speaker vector, [R, mel].
            cond: known mel (zeros where there is none), [R, mel, T].
            modulation: of the step, with one row or R.
            attend: what the new frames attend to.
            conv_past: last inputs of the convolutions, [depth, R, 2 · hidden, 2]; zeros at a start.

        Returns:
            Velocity [R, mel, T] and the new `conv_past`.
        """
        speakers = speaker[:, :, None].expand(-1, -1, x.shape[2])
        hidden = self.in_proj(torch.cat((x, mu, speakers, cond), dim=1).transpose(1, 2))
        kept: list[Tensor] = []
        for index, block in enumerate(self.blocks):
            hidden, conv_kept = block(hidden, modulation.blocks[:, index], index, attend, conv_past[index])
            kept.append(conv_kept)
        return self.final_layer(hidden, modulation.final).transpose(1, 2), torch.stack(kept)
