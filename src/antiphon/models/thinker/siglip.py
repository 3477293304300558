"""The SigLIP vision encoder on strips of patches of any grid ("NaViT" positions). Specification, section 2.4."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import embedding, gelu, linear, scaled_dot_product_attention

from antiphon.config.checkpoint import VisionConfig
from antiphon.core.errors import MediaError

Grid = tuple[int, int]  # rows, columns of patches


def _vector_arange(count: int, start: float, step: float) -> NDArray[np.float32]:
    """Float32 arange, rounded as torch rounds it on a CPU.

    Vectors of eight, two at a time: the first element of each is rounded and the others count from it. What does not
    fill a pair of vectors is rounded once.
    """
    index = np.arange(count)
    first = (start + step * (index // 8 * 8)).astype(np.float32).astype(np.float64)
    in_vectors, alone = first + step * (index % 8), start + step * index
    return np.where(index < count // 16 * 16, in_vectors, alone).astype(np.float32)


@lru_cache(maxsize=1024)
def position_buckets(num_patches: int, table_side: int) -> tuple[int, ...]:
    """Which of *table_side* table rows each of *num_patches* patches along one side uses.

    The reference buckets float32 fractions whose step 1/n is itself float32. For a side of 70 that is ⌊70·i/n⌋, but
    one less at some i of n = 25, 49, 50, 55 and 58, where the last bit decides. So its rounding is repeated here, the
    same on every machine, instead of asking the device's own `arange`.
    """
    fractions = _vector_arange(num_patches, 0.0, float(np.float32(1.0) / np.float32(num_patches)))
    boundaries = _vector_arange(table_side - 1, 1 / table_side, 1 / table_side)
    return tuple(int(row) for row in np.searchsorted(boundaries, fractions, side="right"))


def position_ids(grid: Grid, table_side: int) -> Tensor:
    """Rows of the flattened position table for the patches of *grid*, row-major: [rows·columns] int64 on the CPU."""
    rows = torch.tensor(position_buckets(grid[0], table_side), device="cpu")
    columns = torch.tensor(position_buckets(grid[1], table_side), device="cpu")
    return (rows[:, None] * table_side + columns[None, :]).flatten()


class PatchEmbeddings(nn.Module):
    """Patches to rows: a convolution whose stride is its kernel, so a matrix product over the pixels of each patch."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.patch_size, self.table_side = config.patch_size, config.table_side
        self.patch_embedding = nn.Conv2d(config.num_channels, config.hidden_size, config.patch_size, config.patch_size)
        self.position_embedding = nn.Embedding(config.table_side**2, config.hidden_size)

    def forward(self, strip: Tensor, grid: Grid) -> Tensor:
        """One strip [3, P, P·L] of the grid's L patches, left to right → patch plus position [L, hidden]."""
        size, num_patches = self.patch_size, grid[0] * grid[1]
        weight = self.patch_embedding.weight
        if strip.shape != (weight.shape[1], size, size * num_patches):
            raise MediaError(
                f"image strip of shape {tuple(strip.shape)} does not hold a grid of {grid} patches of {size} pixels"
            )
        pixels = strip.to(weight).view(-1, size, num_patches, size).permute(2, 0, 1, 3).reshape(num_patches, -1)
        positions = position_ids(grid, self.table_side).to(weight.device)
        patches = linear(pixels, weight.flatten(1), self.patch_embedding.bias)
        return patches + embedding(positions, self.position_embedding.weight)


class VisionAttention(nn.Module):
    """Full multi-head attention with biases everywhere; padded patches are hidden as keys."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        hidden = config.hidden_size
        self.num_heads = config.num_heads
        self.q_proj = nn.Linear(hidden, hidden)
        self.k_proj = nn.Linear(hidden, hidden)
        self.v_proj = nn.Linear(hidden, hidden)
        self.out_proj = nn.Linear(hidden, hidden)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        batch, length, hidden = x.shape
        heads = (batch, length, self.num_heads, hidden // self.num_heads)
        q = self.q_proj(x).view(heads).transpose(1, 2)
        k = self.k_proj(x).view(heads).transpose(1, 2)
        v = self.v_proj(x).view(heads).transpose(1, 2)
        mixed = scaled_dot_product_attention(q, k, v, attn_mask=mask)
        out: Tensor = self.out_proj(mixed.transpose(1, 2).flatten(2))
        return out


class VisionMLP(nn.Module):
    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.fc1 = nn.Linear(config.hidden_size, config.intermediate_size)
        self.fc2 = nn.Linear(config.intermediate_size, config.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.fc2(gelu(self.fc1(x), approximate="tanh"))
        return out


class VisionLayer(nn.Module):
    """One pre-norm block over a padded batch."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.layer_norm1 = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.self_attn = VisionAttention(config)
        self.layer_norm2 = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.mlp = VisionMLP(config)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        x = x + self.self_attn(self.layer_norm1(x), mask)
        out: Tensor = x + self.mlp(self.layer_norm2(x))
        return out


class VisionLayers(nn.Module):
    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        num_layers = config.num_layers - int(config.drop_last_layer)
        self.layers = nn.ModuleList(VisionLayer(config) for _ in range(num_layers))

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        for layer in self.layers:
            x = layer(x, mask)
        return x


class SiglipEncoder(nn.Module):
    """`vpm`: strips of patches in, a padded batch of patch features out. There is no pooling head."""

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.embeddings = PatchEmbeddings(config)
        self.encoder = VisionLayers(config)
        self.post_layernorm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, strips: Sequence[Tensor], grids: Sequence[Grid]) -> tuple[Tensor, Tensor | None]:
        """One batch of strips [3, P, P·L].

        Returns:
            features [B, max L, hidden] after the last norm, and which of their rows are patches: bool [B, max L], or
            None when all are.
        """
        patches = [self.embeddings(strip, grid) for strip, grid in zip(strips, grids, strict=True)]
        x, valid = pad_rows(patches)
        mask = None if valid is None else valid[:, None, None, :]
        out: Tensor = self.post_layernorm(self.encoder(x, mask))
        return out, valid


def pad_rows(rows: Sequence[Tensor]) -> tuple[Tensor, Tensor | None]:
    """Stack tensors [L, hidden] as [B, max L, hidden], zeros behind; mark the real rows: bool [B, max L] or None."""
    lengths = [len(x) for x in rows]
    longest = max(lengths)
    if min(lengths) == longest:
        return torch.stack(tuple(rows)), None
    padded = nn.utils.rnn.pad_sequence(list(rows), batch_first=True)
    counts = torch.tensor(lengths, device=padded.device)
    return padded, torch.arange(longest, device=padded.device) < counts[:, None]
