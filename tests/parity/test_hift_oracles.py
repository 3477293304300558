"""The vocoder against stepaudio2's HiFT with the same random weights."""

import warnings
from collections.abc import Callable
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn

from antiphon.models.code2wav.config import HiFTConfig
from antiphon.models.code2wav.hift import HiFT

Oracle = Callable[[str], ModuleType]

NUM_MEL_BINS, HARMONICS = 80, 9


def fold(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    suffix = ".parametrizations.weight.original"
    folded = {name: value for name, value in weights.items() if suffix not in name}
    for name, magnitude in weights.items():
        if name.endswith(f"{suffix}0"):
            module = name.removesuffix(f"{suffix}0")
            direction = weights[f"{module}{suffix}1"]
            folded[f"{module}.weight"] = magnitude * direction / direction.flatten(1).norm(dim=1)[:, None, None]
    return folded


@pytest.fixture(scope="module")
def reference(stepaudio2: Oracle) -> nn.Module:
    module = stepaudio2("flashcosyvoice.modules.hifigan")
    torch.manual_seed(11)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        predictor = module.ConvRNNF0Predictor(in_channels=NUM_MEL_BINS, cond_channels=12)
        hift = module.HiFTGenerator(in_channels=NUM_MEL_BINS, base_channels=24, f0_predictor=predictor)
    for name, parameter in hift.named_parameters():
        if name.endswith("original0"):
            nn.init.uniform_(parameter, 0.3, 0.9)
        elif name.endswith("alpha"):
            nn.init.uniform_(parameter, 0.3, 2.0)
        elif not name.startswith("f0_predictor.classifier"):
            nn.init.normal_(parameter, std=0.1)
    nn.init.normal_(hift.f0_predictor.classifier.weight, std=250.0)
    return hift.eval().requires_grad_(False)


@pytest.fixture(scope="module")
def hift(reference: nn.Module) -> HiFT:
    weights = fold(reference.state_dict())
    config = HiFTConfig.from_shapes({name: tuple(value.shape) for name, value in weights.items()})
    ours = HiFT(config).eval().requires_grad_(False)
    ours.load_state_dict({name: value for name, value in weights.items() if name in ours.state_dict()})
    return ours


def test_every_weight_of_the_reference_has_a_place(reference: nn.Module, hift: HiFT) -> None:
    persistent = {name for name in fold(reference.state_dict()) if "window" not in name}
    assert set(hift.state_dict()) == persistent


@pytest.mark.parametrize("num_frames", [1, 7, 58])
def test_decode_with_a_given_source_is_the_references(reference: nn.Module, hift: HiFT, num_frames: int) -> None:
    mel, source = torch.randn(1, NUM_MEL_BINS, num_frames), torch.randn(1, 1, 480 * num_frames) * 0.1
    ours = hift.decode(mel, source)
    assert ours.shape == (1, 480 * num_frames)
    torch.testing.assert_close(ours, reference.decode(mel, source), atol=1e-4, rtol=0)


def test_pitch_is_the_references(reference: nn.Module, hift: HiFT) -> None:
    mel = torch.randn(2, NUM_MEL_BINS, 90)
    f0 = hift.f0_predictor(mel)
    assert (f0 < 10).any()
    assert (f0 > 100).any()
    torch.testing.assert_close(f0, reference.f0_predictor(mel), atol=1e-3, rtol=1e-5)


@pytest.mark.parametrize("has_noise", [False, True])
def test_the_excitation_is_the_references_whatever_its_random_phase(
    reference: nn.Module, hift: HiFT, monkeypatch: pytest.MonkeyPatch, has_noise: bool
) -> None:
    f0 = torch.tensor([[0.0, 9.9, 10.1, 120.0, 121.5, 333.3, 0.5, 87.0]])
    noise = torch.randn(1, 480 * 8, HARMONICS) if has_noise else None
    drawn = torch.zeros(1, 480 * 8, HARMONICS) if noise is None else noise
    monkeypatch.setattr(torch, "randn_like", lambda x: drawn if x.shape == drawn.shape else torch.zeros_like(x))
    upsampled = f0.repeat_interleave(480, dim=1)[..., None]
    theirs = reference.m_source(upsampled)
    theirs = theirs[0] if isinstance(theirs, tuple) else theirs
    torch.testing.assert_close(hift.m_source(f0, noise).transpose(1, 2), theirs, atol=2e-4, rtol=0)


def test_a_source_head_replaces_the_first_samples(
    reference: nn.Module, hift: HiFT, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "randn_like", torch.zeros_like)
    mel, head = torch.randn(1, NUM_MEL_BINS, 9), torch.randn(1, 1, 1000) * 0.1
    theirs, their_source = reference(mel, head)
    ours, source = hift(mel, None, head)
    torch.testing.assert_close(source, their_source, atol=1e-3, rtol=0)
    torch.testing.assert_close(ours, theirs, atol=5e-3, rtol=0)
    assert torch.equal(source[:, :, :1000], head)
