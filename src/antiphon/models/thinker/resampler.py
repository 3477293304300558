"""Turns the patch features of one image, whatever its grid, into a fixed number of rows. Specification, section 2.4."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import linear, pad, scaled_dot_product_attention

from antiphon.models.thinker.siglip import Grid

_HEAD_DIM = 128  # the checkpoint's code derives the number of heads from it
_NORM_EPS = 1e-6
_FIRST_TABLE_SIDE = 70


def sincos_table(side: int, size: int) -> Tensor:
    """Sine then cosine of index × 10000^(−j / (size / 2)): [side, size] float32 on the CPU, computed in float32."""
    half = size // 2
    frequencies = np.float32(1.0) / np.float32(10_000) ** (np.arange(half, dtype=np.float32) / np.float32(half))
    angles = np.arange(side, dtype=np.float32)[:, None] * frequencies[None, :]
    return torch.from_numpy(np.concatenate((np.sin(angles), np.cos(angles)), axis=1))


class ResamplerAttention(nn.Module):
    """Multi-head attention with the packed projection of `nn.MultiheadAttention` (q, k, v stacked)."""

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.num_heads = hidden_size // _HEAD_DIM
        self.in_proj_weight = nn.Parameter(torch.zeros(3 * hidden_size, hidden_size))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * hidden_size))
        self.out_proj = nn.Linear(hidden_size, hidden_size)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        """query [Q, hidden] for every item; key and value [B, L, hidden]; mask bool [B, 1, 1, L] → [B, Q, hidden]."""
        weights, biases = self.in_proj_weight.chunk(3), self.in_proj_bias.chunk(3)
        heads = (len(key), -1, self.num_heads, _HEAD_DIM)
        q = linear(query, weights[0], biases[0]).expand(len(key), -1, -1).reshape(heads).transpose(1, 2)
        k = linear(key, weights[1], biases[1]).view(heads).transpose(1, 2)
        v = linear(value, weights[2], biases[2]).view(heads).transpose(1, 2)
        mixed = scaled_dot_product_attention(q, k, v, attn_mask=mask)
        out: Tensor = self.out_proj(mixed.transpose(1, 2).flatten(2))
        return out


class Resampler(nn.Module):
    """`resampler`: learned queries attend to the patches; positions go into the keys only, never into the values."""

    def __init__(self, num_queries: int, hidden_size: int, vision_size: int) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.zeros(num_queries, hidden_size))
        self.kv_proj = nn.Linear(vision_size, hidden_size, bias=False)
        self.attn = ResamplerAttention(hidden_size)
        self.ln_q = nn.LayerNorm(hidden_size, _NORM_EPS)
        self.ln_kv = nn.LayerNorm(hidden_size, _NORM_EPS)
        self.ln_post = nn.LayerNorm(hidden_size, _NORM_EPS)
        self.proj = nn.Parameter(torch.zeros(hidden_size, hidden_size))
        self._table: Tensor | None = None

    def forward(self, features: Tensor, valid: Tensor | None, grids: Sequence[Grid]) -> Tensor:
        """features [B, L, vision], valid bool [B, L] or None → [B, num_queries, hidden]."""
        value = self.ln_kv(self.kv_proj(features))
        longest = value.shape[1]
        key = value + torch.stack([pad(self._positions(g, value), (0, 0, 0, longest - g[0] * g[1])) for g in grids])
        mask = None if valid is None else valid[:, None, None, :]
        mixed = self.attn(self.ln_q(self.query), key, value, mask)
        out: Tensor = self.ln_post(mixed) @ self.proj
        return out

    def _positions(self, grid: Grid, like: Tensor) -> Tensor:
        """Position rows of one image, row-major: [rows·columns, hidden] in dtype and place of *like*.

        The first half of the channels encodes the column, the second the row. The 2-D table of the reference is the
        outer combination of one 1-D table with itself; a larger grid extends it.
        """
        rows, columns = grid
        if self._table is None or len(self._table) < max(grid):
            self._table = sincos_table(max(_FIRST_TABLE_SIDE, *grid), like.shape[-1] // 2)
        self._table = table = self._table.to(like.device)
        table = table.to(like.dtype)
        across = table[:columns].repeat(rows, 1)
        down = table[:rows].repeat_interleave(columns, dim=0)
        return torch.cat((across, down), dim=-1)
