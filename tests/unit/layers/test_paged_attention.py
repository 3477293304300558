"""Attention over pages against plain attention, and the Triton kernels (interpreted) against the torch twin."""

import importlib
from collections.abc import Callable
from types import ModuleType

import pytest
import torch
from torch.nn.functional import rms_norm, scaled_dot_product_attention

from antiphon.layers.kernels import has_triton
from antiphon.layers.paged_attention import PagedAttend
from antiphon.layers.paged_batch import PagedBatch
from antiphon.layers.rope import Rope, rotate

BLOCK_SIZE = 4
EPS = 1e-6


@pytest.fixture(scope="module")
def interpreted() -> ModuleType:
    """The kernels' modules, run by Triton's interpreter on the CPU."""
    if not has_triton():
        pytest.skip("Triton is not installed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_INTERPRET", "1")
        modules = [
            importlib.reload(importlib.import_module(f"antiphon.layers.kernels.{name}"))
            for name in ("norm_rotate_store", "paged_attention")
        ]
        yield modules[0]
    for module in modules:
        importlib.reload(module)


Case = tuple[torch.Tensor, PagedBatch, torch.Tensor, list[torch.Tensor]]


@pytest.fixture
def make_case() -> Callable[..., Case]:
    """Makes pages full of NaN but for the contexts given, a batch over them, and its qkv."""

    def make(decodes: list[int], extends: list[tuple[int, int]], *, heads: int, kv_heads: int, dim: int) -> Case:
        torch.manual_seed(0)
        rows = [(context, 1) for context in decodes] + extends  # (context with the new tokens, new tokens)
        needed = [-(-context // BLOCK_SIZE) for context, _ in rows]
        order = torch.randperm(sum(needed)).split(needed)
        tables = torch.zeros(len(rows), max(needed), dtype=torch.int32)
        pages = torch.full((1, 2, sum(needed), BLOCK_SIZE, kv_heads, dim), float("nan"))
        kv_index, positions, contexts = [], [], []
        for row, ((context, new), blocks) in enumerate(zip(rows, order, strict=True)):
            tables[row, : len(blocks)] = blocks
            places = torch.arange(context)
            index = blocks[places // BLOCK_SIZE] * BLOCK_SIZE + places % BLOCK_SIZE
            old = torch.randn(2, context, kv_heads, dim)
            contexts.append(old)
            pages[0].flatten(1, 2)[:, index[:-new]] = old[:, :-new]
            kv_index.append(index[-new:])
            positions.append(places[-new:])
        cos, sin = Rope(dim, 10_000.0).cos_sin(torch.cat(positions))
        starts = torch.tensor([0, *(new for _, new in rows)]).cumsum(0)
        batch = PagedBatch(
            kv_index=torch.cat(kv_index),
            cos=cos,
            sin=sin,
            query_start=starts.to(torch.int32),
            context_lens=torch.tensor([context for context, _ in rows], dtype=torch.int32),
            tables=tables,
            num_decodes=len(decodes),
            max_query_len=max((new for _, new in extends), default=1),
        )
        return pages, batch, torch.randn(len(batch.kv_index), (heads + 2 * kv_heads) * dim), contexts

    return make


def test_the_twin_is_plain_attention_over_each_context(make_case: Callable[..., Case]) -> None:
    pages, batch, qkv, contexts = make_case([7, 1], [(10, 3), (4, 4)], heads=4, kv_heads=2, dim=8)
    norms = torch.rand(2, 8) + 0.5
    out = PagedAttend(pages, batch, eps=EPS, use_kernels=False)(0, qkv, norms[0], norms[1])
    for row, context in enumerate(contexts):
        asked = slice(int(batch.query_start[row]), int(batch.query_start[row + 1]))
        q, k, v = qkv[asked].view(-1, 8, 8).split((4, 2, 2), dim=1)
        q, k = rms_norm(q, (8,), norms[0], EPS), rms_norm(k, (8,), norms[1], EPS)
        num_new = len(q)
        keys, values = context.clone()
        keys[-num_new:], values[-num_new:] = rotate(k, batch.cos[asked], batch.sin[asked]), v
        mask = torch.ones(num_new, len(keys), dtype=torch.bool).tril(len(keys) - num_new)
        wanted = scaled_dot_product_attention(
            rotate(q, batch.cos[asked], batch.sin[asked]).transpose(0, 1),
            keys.transpose(0, 1).repeat_interleave(2, 0),
            values.transpose(0, 1).repeat_interleave(2, 0),
            attn_mask=mask,
        )
        torch.testing.assert_close(out[asked], wanted.transpose(0, 1).flatten(1))


@pytest.mark.parametrize(
    ("decodes", "extends"),
    [
        ([1, 5, 70, 131], []),
        ([], [(3, 3), (40, 1), (90, 37), (17, 16)]),
        ([9, 33], [(70, 66), (2, 2)]),
    ],
    ids=["decode", "extend", "mixed"],
)
@pytest.mark.parametrize(("heads", "kv_heads", "dim", "has_norm"), [(4, 2, 16, True), (6, 6, 24, False)])
def test_the_kernels_agree_with_the_twin(
    interpreted: ModuleType,
    make_case: Callable[..., Case],
    decodes: list[int],
    extends: list[tuple[int, int]],
    heads: int,
    kv_heads: int,
    dim: int,
    has_norm: bool,
) -> None:
    pages, batch, qkv, _ = make_case(decodes, extends, heads=heads, kv_heads=kv_heads, dim=dim)
    q_norm, k_norm = torch.rand(2, dim) + 0.5 if has_norm else (None, None)
    twin_pages = pages.clone()
    wanted = PagedAttend(twin_pages, batch, eps=EPS, use_kernels=False)(0, qkv, q_norm, k_norm)
    out = PagedAttend(pages, batch, eps=EPS, use_kernels=True)(0, qkv, q_norm, k_norm)
    torch.testing.assert_close(out, wanted, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(pages, twin_pages, atol=1e-6, rtol=1e-6, equal_nan=True)


def test_a_split_walks_over_several_tiles(
    interpreted: ModuleType, make_case: Callable[..., Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("antiphon.layers.kernels.paged_attention._MAX_SPLITS", 2)
    pages, batch, qkv, _ = make_case([131, 20], [], heads=2, kv_heads=1, dim=16)
    wanted = PagedAttend(pages.clone(), batch, eps=EPS, use_kernels=False)(0, qkv, None, None)
    out = PagedAttend(pages, batch, eps=EPS, use_kernels=True)(0, qkv, None, None)
    torch.testing.assert_close(out, wanted, atol=1e-5, rtol=1e-5)
