"""A decoder's weights stacked for speed, and cut for tensor parallelism: the fast twin of `Decoder.forward`.

Queries, keys and values come from one matrix product, gate and up from another; residuals are added inside the products
that follow attention and activation. With `FewRowsProducts` a step of a few rows takes four launches a layer beside
attention instead of nine.
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, rms_norm, silu

from antiphon.layers.decoder import Decoder, DecoderLayer
from antiphon.layers.few_rows import FewRowsProducts
from antiphon.layers.parallel import ALONE, ParallelGroup, require_divisible, shard_columns, shard_rows


class StackedAttend(Protocol):
    """How one layer attends, from stacked projections.

    Takes the layer's index, qkv [T, (H + 2·H_kv)·D] and the q/k norm weights [D]; returns [T, H·D].
    """

    def __call__(self, layer: int, qkv: Tensor, q_norm: Tensor | None, k_norm: Tensor | None) -> Tensor: ...


@dataclass(frozen=True)
class StackedLayer:
    """One layer's weights; a rank holds its share of the heads and of the intermediate size."""

    input_norm: Tensor  # [hidden]
    qkv: Tensor  # [(H + 2·H_kv)·D, hidden]
    q_norm: Tensor | None  # [D]
    k_norm: Tensor | None  # [D]
    o: Tensor  # [hidden, H·D]
    post_norm: Tensor  # [hidden]
    gate_up: Tensor  # [2·intermediate, hidden]
    down: Tensor  # [hidden, intermediate]


class StackedDecoder:
    """Takes the weights of *decoder* over, one layer at a time, so that memory never holds them twice.

    Alone, the decoder's own parameters become views of the stacked ones, and it goes on working as the slow twin. Of
    several ranks each keeps its share, on *device*, and the decoder is left without weights.

    Attributes:
        few_rows: computes launches of a few rows; None: all take the plain path.
    """

    def __init__(
        self,
        decoder: Decoder,
        *,
        device: torch.device,
        group: ParallelGroup = ALONE,
        few_rows: FewRowsProducts | None = None,
    ) -> None:
        config = decoder.config
        self.config, self.rope, self.group = config, decoder.rope, group
        self.few_rows = few_rows
        self.num_heads = require_divisible("num_heads", config.num_heads, group)
        self.num_kv_heads = require_divisible("num_kv_heads", config.num_kv_heads, group)
        self.norm = decoder.norm.weight.detach().to(device)
        self.layers: list[StackedLayer] = []
        for layer in decoder.layers:
            assert isinstance(layer, DecoderLayer)
            self.layers.append(self._take(layer, device))

    def forward(self, embeds: Tensor, attend: StackedAttend) -> Tensor:
        """*embeds* [T, hidden], changed in place, → final-norm hidden [T, hidden]; *attend* knows the positions."""
        if self.few_rows is not None and len(embeds) <= self.few_rows.max_rows:
            return self._forward_few(self.few_rows, embeds, attend)
        x, size, eps = embeds, (self.config.hidden_size,), self.config.rms_norm_eps
        for index, layer in enumerate(self.layers):
            qkv = linear(rms_norm(x, size, layer.input_norm, eps), layer.qkv)
            x = self._add(x, attend(index, qkv, layer.q_norm, layer.k_norm), layer.o)
            gate, up = linear(rms_norm(x, size, layer.post_norm, eps), layer.gate_up).chunk(2, dim=-1)
            x = self._add(x, silu(gate) * up, layer.down)
        return rms_norm(x, size, self.norm, eps)

    def _forward_few(self, products: FewRowsProducts, x: Tensor, attend: StackedAttend) -> Tensor:
        assert self.group.size == 1  # the sums over ranks stand between product and residual
        eps = self.config.rms_norm_eps
        for index, layer in enumerate(self.layers):
            qkv = products.norm_product(x, layer.input_norm, layer.qkv, eps)
            products.add_product(x, attend(index, qkv, layer.q_norm, layer.k_norm), layer.o)
            products.add_product(x, products.norm_gated_product(x, layer.post_norm, layer.gate_up, eps), layer.down)
        return rms_norm(x, (self.config.hidden_size,), self.norm, eps)

    def _add(self, x: Tensor, inner: Tensor, weight: Tensor) -> Tensor:
        if self.group.size == 1:
            return x.addmm_(inner, weight.t())
        return x.add_(self.group.sum(linear(inner, weight)))

    def _take(self, layer: DecoderLayer, device: torch.device) -> StackedLayer:
        attention, mlp = layer.self_attn, layer.mlp
        assert (attention.q_norm is None) == (attention.k_norm is None)
        return StackedLayer(
            input_norm=layer.input_layernorm.weight.detach().to(device),
            qkv=self._stack((attention.q_proj, attention.k_proj, attention.v_proj), device),
            q_norm=None if attention.q_norm is None else attention.q_norm.weight.detach().to(device),
            k_norm=None if attention.k_norm is None else attention.k_norm.weight.detach().to(device),
            o=self._rows(attention.o_proj, device),
            post_norm=layer.post_attention_layernorm.weight.detach().to(device),
            gate_up=self._stack((mlp.gate_proj, mlp.up_proj), device),
            down=self._rows(mlp.down_proj, device),
        )

    def _stack(self, projections: tuple[nn.Linear, ...], device: torch.device) -> Tensor:
        shares = [shard_columns(projection.weight.detach(), self.group) for projection in projections]
        stacked = torch.cat([share.to(device) for share in shares])
        views = torch.split(stacked, [len(share) for share in shares])
        for projection, view in zip(projections, views, strict=True):
            _replace(projection, view if self.group.size == 1 else None)
        return stacked

    def _rows(self, projection: nn.Linear, device: torch.device) -> Tensor:
        if self.group.size == 1:
            _replace(projection, projection.weight.detach().to(device))
            return projection.weight.detach()
        share = shard_rows(projection.weight.detach(), self.group).to(device).contiguous().clone()
        _replace(projection, None)
        return share


def _replace(projection: nn.Linear, weight: Tensor | None) -> None:
    """Make *weight* itself the parameter, or free the memory of the old one."""
    new = projection.weight.detach().new_empty(0) if weight is None else weight
    projection.weight = nn.Parameter(new, requires_grad=False)
