"""Attention over paged keys and values: Triton kernels where the device has them, their torch twin elsewhere."""

import torch
from torch import Tensor
from torch.nn.functional import rms_norm, scaled_dot_product_attention

from antiphon.layers.kernels import has_triton
from antiphon.layers.paged_batch import PagedBatch
from antiphon.layers.rope import rotate


def can_use_kernels(device: torch.device) -> bool:
    """Whether the Triton kernels run on *device*."""
    return device.type == "cuda" and has_triton()


class PagedAttend:
    """One launch's view of the cache: norms and rotates queries and keys, stores keys and values, attends.

    Args:
        pages: [layers, 2, blocks, block_size, H_kv, D], keys then values.
        batch: the tokens of the launch.
        eps: of the q/k norms.
        use_kernels: Triton instead of the twin.
    """

    def __init__(self, pages: Tensor, batch: PagedBatch, *, eps: float, use_kernels: bool) -> None:
        self.pages, self.batch, self.eps, self.use_kernels = pages, batch, eps, use_kernels

    def __call__(self, layer: int, qkv: Tensor, q_norm: Tensor | None, k_norm: Tensor | None) -> Tensor:
        """*qkv* [T, (H + 2·H_kv)·D] as projected → mixed values [T, H·D]."""
        keys, values = self.pages[layer]
        run = _attend_kernels if self.use_kernels else _attend_torch
        return run(qkv, keys, values, self.batch, q_norm, k_norm, self.eps).flatten(1)


def _attend_kernels(
    qkv: Tensor,
    keys: Tensor,
    values: Tensor,
    batch: PagedBatch,
    q_norm: Tensor | None,
    k_norm: Tensor | None,
    eps: float,
) -> Tensor:
    # Imported here: a machine without Triton must be able to import this module.
    from antiphon.layers.kernels.norm_rotate_store import norm_rotate_store
    from antiphon.layers.kernels.paged_attention import attend_decodes, attend_extends

    q = norm_rotate_store(qkv, keys, values, batch, q_norm, k_norm, eps)
    out = torch.empty_like(q)
    if batch.num_decodes:
        attend_decodes(q[: batch.num_decodes], keys, values, batch, out[: batch.num_decodes])
    if batch.num_decodes < len(batch.context_lens):
        attend_extends(q, keys, values, batch, out)
    return out


def _attend_torch(
    qkv: Tensor,
    keys: Tensor,
    values: Tensor,
    batch: PagedBatch,
    q_norm: Tensor | None,
    k_norm: Tensor | None,
    eps: float,
) -> Tensor:
    """The twin. Reads lengths on the host, which on a GPU waits for it."""
    _, block_size, num_kv_heads, head_dim = keys.shape
    num_heads = qkv.shape[1] // head_dim - 2 * num_kv_heads
    q, k, v = torch.split(qkv.view(len(qkv), -1, head_dim), [num_heads, num_kv_heads, num_kv_heads], dim=1)
    if q_norm is not None and k_norm is not None:
        q, k = rms_norm(q, (head_dim,), q_norm, eps), rms_norm(k, (head_dim,), k_norm, eps)
    q, k = rotate(q, batch.cos, batch.sin), rotate(k, batch.cos, batch.sin)
    keys.view(-1, num_kv_heads, head_dim)[batch.kv_index] = k
    values.view(-1, num_kv_heads, head_dim)[batch.kv_index] = v
    out = torch.empty_like(q)
    starts = batch.query_start.tolist()
    for row, context in enumerate(batch.context_lens.tolist()):
        asked = slice(starts[row], starts[row + 1])
        num_new = starts[row + 1] - starts[row]
        if num_new == 0:
            continue
        blocks = batch.tables[row, : -(-context // block_size)].long()
        seen_k, seen_v = (side[blocks].flatten(0, 1)[:context].transpose(0, 1) for side in (keys, values))
        mask = None
        if num_new > 1:
            mask = torch.ones(num_new, context, dtype=torch.bool, device=q.device).tril(context - num_new)
        mixed = scaled_dot_product_attention(
            q[asked].transpose(0, 1)[None],
            seen_k[None],
            seen_v[None],
            attn_mask=mask,
            enable_gqa=num_heads != num_kv_heads,
        )
        out[asked] = mixed[0].transpose(0, 1)
    return out
