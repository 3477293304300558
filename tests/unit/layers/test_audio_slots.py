"""Attention of audio units over slot caches: the kernel, interpreted on the CPU, against its torch twin."""

import importlib.util
import sys
from types import ModuleType

import pytest
import torch

from antiphon.layers.audio_slots import UNIT_FRAMES, AudioSlots, SlotAttend
from antiphon.layers.kernels import has_triton

CPU = torch.device("cpu")


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A copy of the kernel module whose kernels are interpreted: the flag counts when they are decorated."""
    if not has_triton():
        pytest.skip("Triton is not installed")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    source = importlib.util.find_spec("antiphon.layers.kernels.audio_slots")
    assert source is not None
    assert source.origin is not None
    spec = importlib.util.spec_from_file_location("interpreted_audio_slots", source.origin)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def make_cache(head_dim: int) -> AudioSlots:
    cache = AudioSlots(
        num_layers=2, num_slots=4, max_frames=300, num_heads=3, head_dim=head_dim, device=CPU, dtype=torch.float32
    )
    cache.pages.normal_(generator=torch.Generator().manual_seed(1))
    return cache


@pytest.mark.parametrize("head_dim", [8, 16])
def test_the_kernel_mixes_what_the_twin_mixes(kernels: ModuleType, head_dim: int) -> None:
    cache, generator = make_cache(head_dim), torch.Generator().manual_seed(2)
    q, k, v = torch.randn(3, 3, UNIT_FRAMES, 3, head_dim, generator=generator)
    slots, lengths = torch.tensor([2, 0, 3]), torch.tensor([250, 0, 50])
    cache.pages[1, 1, 0, UNIT_FRAMES:] = float("nan")  # what an earlier stream left behind
    twin = SlotAttend(cache, slots, lengths, [(2, 250), (0, 0), (3, 50)])
    wanted = twin(1, q, k, v)
    came = kernels.attend_units(q, *cache.pages[1], slots, lengths)
    torch.testing.assert_close(came, wanted, atol=1e-5, rtol=1e-5)
    assert wanted.isfinite().all()


def test_a_unit_is_stored_in_its_own_slot_behind_what_is_there() -> None:
    cache = make_cache(8)
    before = cache.pages.clone()
    q, k, v = torch.randn(3, 1, UNIT_FRAMES, 3, 8)
    SlotAttend(cache, torch.tensor([2]), torch.tensor([100]), [(2, 100)])(0, q, k, v)
    assert torch.equal(cache.pages[0, 0, 2, 100:150], k[0])
    assert torch.equal(cache.pages[0, 1, 2, 100:150], v[0])
    cache.pages[0, :, 2, 100:150] = before[0, :, 2, 100:150]
    assert torch.equal(cache.pages, before)
