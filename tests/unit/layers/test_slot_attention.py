"""The slot twins against plain attention, and the Triton kernels against the twins, interpreted on the CPU."""

import importlib.util
import sys

import pytest
import torch

from antiphon.layers.kernels import has_triton
from antiphon.layers.kv_cache import CausalAttend, KVCache
from antiphon.layers.rope import Rope, rotate
from antiphon.layers.slot_attention import DecodeTwin, ExtendTwin, Extension, SlotTokens, split_heads
from antiphon.layers.slot_cache import HeadSizes, SlotCache

ROPE = Rope(12, 10_000.0)


def make_cache(heads, *, num_slots=4, max_positions=700, seed=3):
    cache = SlotCache(1, num_slots, max_positions, heads, device=torch.device("cpu"), dtype=torch.float32)
    cache.pages.normal_(generator=torch.Generator().manual_seed(seed))
    return cache


def tokens(slots, lengths):
    cos, sin = ROPE.cos_sin(torch.tensor(lengths))
    return SlotTokens(torch.tensor(slots), torch.tensor(lengths), cos, sin)


def projections(num_tokens, heads, seed=4):
    width = (heads.num_heads + 2 * heads.num_kv_heads) * heads.head_dim
    return torch.randn(num_tokens, width, generator=torch.Generator().manual_seed(seed))


def plain(cache, slot, length, qkv, new):
    """Causal attention of rows *qkv* behind the first *length* entries of a slot."""
    twin = KVCache(1)
    keys, values = cache.layer(0)
    if length:
        twin.keys, twin.values = [keys[slot, :, :length].clone()], [values[slot, :, :length].clone()]
    q, k, v = split_heads(qkv, cache.heads)
    return CausalAttend(twin)(0, rotate(q, new.cos, new.sin), rotate(k, new.cos, new.sin), v).flatten(1)


@pytest.fixture
def kernels(monkeypatch):
    """A copy of the kernel module whose kernels are interpreted: the flag counts when they are decorated."""
    if not has_triton():
        pytest.skip("Triton is not installed")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    source = importlib.util.find_spec("antiphon.layers.kernels.slot_attention")
    spec = importlib.util.spec_from_file_location("interpreted_slot_attention", source.origin)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


MHA, GQA = HeadSizes(2, 2, 12), HeadSizes(4, 2, 12)
ROWS = ([2, 0, 4, 4, 3], [5, 0, 0, 0, 650])  # two padding rows in the scratch slot


@pytest.mark.parametrize("heads", [MHA, GQA])
def test_a_decode_row_sees_its_own_slot_up_to_its_length(heads):
    cache, (slots, lengths) = make_cache(heads), ROWS
    qkv = projections(5, heads)
    expected = [
        plain(cache, slots[row], lengths[row], qkv[row : row + 1], tokens([0], [lengths[row]])) for row in (0, 1, 4)
    ]
    mixed = DecodeTwin(cache, tokens(slots, lengths), span=651)(0, qkv, None, None)
    torch.testing.assert_close(mixed[[0, 1, 4]], torch.cat(expected))


def test_nan_left_behind_by_an_ended_sequence_is_not_seen():
    cache = make_cache(MHA)
    clean = DecodeTwin(cache, tokens([1], [7]), span=64)(0, projections(1, MHA), None, None)
    cache.pages[:, :, 1, :, 8:] = float("nan")
    cache.pages[:, :, 0] = float("nan")
    torch.testing.assert_close(DecodeTwin(cache, tokens([1], [7]), span=64)(0, projections(1, MHA), None, None), clean)


@pytest.mark.parametrize("heads", [MHA, GQA])
def test_extensions_of_several_slots_are_causal_and_apart(heads):
    cache = make_cache(heads)
    parts = [Extension(3, 9, 0, 4), Extension(1, 0, 4, 6)]
    new = tokens([3] * 4 + [1] * 2 + [4], [9, 10, 11, 12, 0, 1, 0])
    qkv = projections(7, heads)
    first = plain(cache, 3, 9, qkv[:4], tokens([3] * 4, [9, 10, 11, 12]))
    second = plain(cache, 1, 0, qkv[4:6], tokens([1] * 2, [0, 1]))
    mixed = ExtendTwin(cache, new, parts)(0, qkv, None, None)
    torch.testing.assert_close(mixed[:6], torch.cat((first, second)))


@pytest.mark.parametrize("heads", [MHA, GQA])
def test_the_decode_kernel_is_its_twin(kernels, heads):
    cache, twin_cache = make_cache(heads), make_cache(heads)
    pair = kernels.SlotKernels(cache, 5)
    rows = tokens([2, 0, 1, 4, 3], [255, 0, 256, 0, 650])
    for seed in (4, 5):  # the second launch finds what the first left behind
        qkv = projections(5, heads, seed)
        mixed = pair.decode(rows)(0, qkv, None, None)
        torch.testing.assert_close(mixed, DecodeTwin(twin_cache, rows, span=700)(0, qkv, None, None))
    assert torch.equal(cache.pages, twin_cache.pages)
    assert not pair.arrived.any()


@pytest.mark.parametrize("heads", [MHA, GQA])
def test_the_extension_kernel_is_its_twin(kernels, heads):
    cache, twin_cache = make_cache(heads), make_cache(heads)
    pair = kernels.SlotKernels(cache, 6)
    new = tokens([3] * 4 + [1] * 2, [254, 255, 256, 257, 0, 1])
    parts = [Extension(3, 254, 0, 4), Extension(1, 0, 4, 6)]
    qkv = projections(6, heads)
    mixed = pair.extend(new)(0, qkv, None, None)
    torch.testing.assert_close(mixed, ExtendTwin(twin_cache, new, parts)(0, qkv, None, None))
    assert torch.equal(cache.pages, twin_cache.pages)


def test_the_kernel_does_not_see_nan_of_an_ended_sequence(kernels):
    cache, twin_cache = make_cache(MHA), make_cache(MHA)
    cache.pages[:, :, 1, :, 8:] = float("nan")
    rows = tokens([1], [7])
    mixed = kernels.SlotKernels(cache, 1).decode(rows)(0, projections(1, MHA), None, None)
    torch.testing.assert_close(mixed, DecodeTwin(twin_cache, rows, span=64)(0, projections(1, MHA), None, None))
