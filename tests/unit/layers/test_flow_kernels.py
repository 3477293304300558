"""The flow's Triton kernels, interpreted on the CPU, against plain torch in double precision."""

import importlib
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor
from torch.nn.functional import layer_norm, mish, scaled_dot_product_attention

from antiphon.layers.flow_kernels import FlowKernels, load_flow_kernels
from antiphon.layers.flow_rows import FlowPlaces
from antiphon.layers.kernels import has_triton

EPS = 1e-5


@pytest.fixture(scope="module")
def kernels() -> Iterator[FlowKernels]:
    if not has_triton():
        pytest.skip("Triton is not installed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_INTERPRET", "1")
        modules = [
            importlib.reload(importlib.import_module(f"antiphon.layers.kernels.{name}"))
            for name in ("flow_norms", "flow_attention")
        ]
        found = load_flow_kernels()
        assert found is not None
        yield found
    for module in modules:
        importlib.reload(module)


def draw(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def make_places(batch: int, num_frames: int, size: int, num_slots: int, num_new: list[int]) -> FlowPlaces:
    """Rows in different slots, each with its own number of seen entries; frames that do not count go to the last."""
    generator = torch.Generator().manual_seed(batch + num_frames + size)
    writes = torch.full((batch, num_frames), size - 1)
    seen = torch.zeros(batch, size, dtype=torch.int32)
    for row in range(batch):
        order = torch.randperm(size - 1, generator=generator)
        count = num_new[row % len(num_new)]
        writes[row, :count] = order[:count]
        seen[row, order[: count + (row + 1) * size // (batch + 2)]] = 1
    ends = (seen * torch.arange(1, size + 1, dtype=torch.int32)).amax(1)
    slots = torch.randperm(num_slots, generator=generator)[:batch]
    counts = torch.tensor([num_new[row % len(num_new)] for row in range(batch)], dtype=torch.int32)
    return FlowPlaces(slots, writes, seen, ends, counts)


def heads_first(x: Tensor) -> Tensor:
    """[T, 2, H, D] → [2, H, T, D], in double precision."""
    return x.permute(1, 2, 0, 3).double()


@pytest.mark.parametrize("tf32", [False, True])
@pytest.mark.parametrize(
    ("batch", "num_frames", "size", "heads", "dim"),
    [(1, 50, 512, 2, 64), (3, 56, 1008, 1, 24), (3, 6, 96, 2, 4), (16, 6, 64, 1, 8)],
)
def test_attention_sees_what_counts_and_nothing_else(
    kernels: FlowKernels, batch: int, num_frames: int, size: int, heads: int, dim: int, tf32: bool
) -> None:
    places = make_places(batch, num_frames, size, batch + 2, [num_frames, num_frames - 2, 4])
    qkv = draw(batch, num_frames, 2, heads, 3, dim, seed=1)
    scale, shift = draw(2, dim, seed=2), draw(2, dim, seed=3)
    cache = torch.full((batch + 2, 2, heads, size, 2, dim), torch.nan)
    for row, slot in enumerate(places.slots):
        cache[slot, :, :, places.seen[row] == 1] = draw(2, heads, int(places.seen[row].sum()), 2, dim, seed=row)
    expected_cache, expected = cache.clone(), []
    normed = layer_norm(qkv[..., :2, :], (dim,), eps=EPS) * scale + shift
    for row, slot in enumerate(places.slots):
        count, kept = int(places.num_new[row]), places.seen[row] == 1
        written = places.writes[row, :count]
        expected_cache[slot, :, :, written, 0] = normed[row, :count, ..., 1, :].permute(1, 2, 0, 3)
        expected_cache[slot, :, :, written, 1] = qkv[row, :count, ..., 2, :].permute(1, 2, 0, 3)
        keys, values = expected_cache[slot, :, :, kept].double().unbind(3)
        mixed = scaled_dot_product_attention(heads_first(normed[row, ..., 0, :]), keys, values)
        expected.append(mixed.permute(2, 0, 1, 3).flatten(2).float())
    kernels.attention.norm_store(qkv, scale, shift, EPS, cache, places)
    mixed = kernels.attention.attend(qkv, cache, places, tf32=tf32)
    torch.testing.assert_close(mixed, torch.stack(expected), atol=2e-5, rtol=2e-5)
    is_junk = torch.arange(size) == size - 1  # several frames may go there, the order is open
    torch.testing.assert_close(
        cache[:, :, :, ~is_junk], expected_cache[:, :, :, ~is_junk], atol=2e-5, rtol=2e-5, equal_nan=True
    )


@pytest.mark.parametrize("has_branch", [False, True])
@pytest.mark.parametrize("size", [12, 512])
def test_a_norm_adds_the_branch_before_it(kernels: FlowKernels, size: int, has_branch: bool) -> None:
    x, branch = draw(2, 5, 2, size, seed=1), draw(2, 5, 2, size, seed=2)
    gate, scale, shift = draw(3, size, seed=3)
    expected = x + branch * gate if has_branch else x.clone()
    y = kernels.norms.add_norm(x, branch if has_branch else None, gate, scale, shift, EPS)
    torch.testing.assert_close(x, expected)
    torch.testing.assert_close(y, layer_norm(expected, (size,), scale, shift, EPS), atol=2e-6, rtol=2e-5)


@pytest.mark.parametrize(("batch", "num_frames", "size"), [(1, 50, 64), (3, 56, 24), (3, 6, 12), (16, 2, 8)])
@pytest.mark.parametrize("is_second", [False, True])
def test_windows_are_those_of_a_causal_convolution(
    kernels: FlowKernels, batch: int, num_frames: int, size: int, is_second: bool
) -> None:
    places = make_places(batch, num_frames, 96, batch + 2, [num_frames, 2, 0])
    x, branch = draw(batch, num_frames, 2, size, seed=1), draw(batch, num_frames, 2, size, seed=2)
    gate, scale, shift = draw(3, size, seed=3)
    past = draw(batch + 2, 2, 2, size, seed=4)
    expected_past, slots = past.clone(), places.slots
    if is_second:
        expected = mish(layer_norm(20 * x, (size,), 30 * scale, shift, EPS))  # Mish far out as well
        windows = kernels.norms.norm_mish_windows(20 * x, 30 * scale, shift, EPS, past, places)
    else:
        expected = layer_norm(x + branch * gate, (size,), scale, shift, EPS)
        windows = kernels.norms.add_norm_windows(x, branch, gate, scale, shift, EPS, past, places)
    inputs = torch.cat((expected_past[slots], expected), dim=1)
    for row, slot in enumerate(slots):
        expected_past[slot] = inputs[row, int(places.num_new[row]) :][:2]
    shifted = torch.cat((inputs[:, :-2], inputs[:, 1:-1], inputs[:, 2:]), dim=-1)
    torch.testing.assert_close(windows, shifted, atol=2e-5, rtol=2e-5)
    torch.testing.assert_close(past, expected_past, atol=2e-5, rtol=2e-5)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of the interpreter, about the NaNs
def test_a_stream_that_is_not_numbers_stays_so_and_its_neighbour_does_not_notice(kernels: FlowKernels) -> None:
    places = make_places(2, 6, 96, 4, [6])
    qkv, cache = draw(2, 6, 2, 2, 3, 16, seed=1), draw(4, 2, 2, 96, 2, 16, seed=2)
    cache[places.slots[0]] = torch.nan
    weights = draw(2, 16, seed=3)
    kernels.attention.norm_store(qkv, weights, weights, EPS, cache, places)
    mixed = kernels.attention.attend(qkv, cache, places, tf32=False)
    assert mixed[0].isnan().all()
    assert mixed[1].isfinite().all()
