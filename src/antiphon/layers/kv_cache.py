"""The contiguous key/value cache of one sequence, and attention over it: the slow twin of the paged cache."""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from antiphon.layers.rope import Rope, rotate


class Attend(Protocol):
    """How one layer attends: stores the new keys and values where it keeps them and returns the mixed values.

    Takes the layer's index, q [T, H, D], k and v [T, H_kv, D]; returns [T, H, D].
    """

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor: ...


class KVCache:
    """Keys (after RoPE) and values of one sequence: per layer [H_kv, T, D]. All layers have the same length."""

    def __init__(self, num_layers: int) -> None:
        self.keys: list[Tensor | None] = [None] * num_layers
        self.values: list[Tensor | None] = [None] * num_layers

    def __len__(self) -> int:
        first = self.keys[0]
        return 0 if first is None else first.shape[1]

    def layer(self, index: int) -> tuple[Tensor, Tensor]:
        """Keys and values of one layer, [H_kv, T, D] each; the cache must not be empty."""
        k, v = self.keys[index], self.values[index]
        assert k is not None
        assert v is not None
        return k, v

    def append(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Append k and v [T, H_kv, D] to one layer and return all of its keys and values."""
        k, v = k.transpose(0, 1), v.transpose(0, 1)
        old_k, old_v = self.keys[layer], self.values[layer]
        self.keys[layer] = k if old_k is None else torch.cat((old_k, k), dim=1)
        self.values[layer] = v if old_v is None else torch.cat((old_v, v), dim=1)
        return self.layer(layer)

    def keep(self, spans: Sequence[tuple[int, int]]) -> None:
        """Keep only the half-open position spans given, joined in their order."""
        for index in range(len(self.keys)):
            k, v = self.layer(index)
            self.keys[index] = torch.cat([k[:, a:b] for a, b in spans], dim=1)
            self.values[index] = torch.cat([v[:, a:b] for a, b in spans], dim=1)

    def rotate_keys(self, start: int, end: int, shift: Tensor, rope: Rope) -> None:
        """Turn the keys of positions [start, end) by *shift* further positions ([end − start] int, may be negative)."""
        cos, sin = rope.cos_sin(shift)
        for index in range(len(self.keys)):
            k, _ = self.layer(index)
            turned = rotate(k[:, start:end].transpose(0, 1), cos.to(k.device), sin.to(k.device))
            self.keys[index] = torch.cat((k[:, :start], turned.transpose(0, 1), k[:, end:]), dim=1)

    def clear(self) -> None:
        self.keys = [None] * len(self.keys)
        self.values = [None] * len(self.values)

    def clone(self) -> "KVCache":
        """An independent cache; tensors are never changed in place, so they can be shared."""
        copy = KVCache(len(self.keys))
        copy.keys, copy.values = list(self.keys), list(self.values)
        return copy


class CausalAttend:
    """Causal attention of new tokens over a `KVCache` plus themselves, which it appends."""

    def __init__(self, cache: KVCache) -> None:
        self.cache = cache

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        keys, values = self.cache.append(layer, k, v)
        num_new, num_all = q.shape[0], keys.shape[1]
        mask = None
        if num_new > 1:
            mask = torch.ones(num_new, num_all, dtype=torch.bool, device=q.device).tril(num_all - num_new)
        mixed = scaled_dot_product_attention(
            q.transpose(0, 1)[None], keys[None], values[None], attn_mask=mask, enable_gqa=q.shape[1] != k.shape[1]
        )
        return mixed[0].transpose(0, 1)
