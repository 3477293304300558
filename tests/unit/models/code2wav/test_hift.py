from math import inf, log

import pytest
import torch

from antiphon.models.code2wav import hift as hift_module
from antiphon.models.code2wav.code2wav import Code2Wav
from antiphon.models.code2wav.config import HiFTConfig
from antiphon.models.code2wav.hift import HiFT, ResBlock


def hum(config: HiFTConfig, log_magnitude: float) -> HiFT:
    """A vocoder whose spectrum is one magnitude at 0 Hz: a constant of a twelfth of it."""
    hift = HiFT(config).requires_grad_(False)
    hift.conv_post.weight.zero_()
    assert hift.conv_post.bias is not None
    hift.conv_post.bias.fill_(-50.0)
    hift.conv_post.bias[0] = log_magnitude
    hift.conv_post.bias[9:] = 0.0
    return hift


@pytest.mark.parametrize(("log_magnitude", "expected"), [(0.0, 1.0), (log(90.0), 90.0), (50.0, 100.0), (200.0, 100.0)])
def test_magnitudes_are_limited_to_100(
    hift_config: HiFTConfig, monkeypatch: pytest.MonkeyPatch, log_magnitude: float, expected: float
) -> None:
    monkeypatch.setattr(hift_module, "MAX_SAMPLE", inf)
    samples = hum(hift_config, log_magnitude).decode(torch.zeros(1, 6, 2), torch.zeros(1, 1, 960))
    torch.testing.assert_close(samples[:, 20:-20], torch.full((1, 920), expected / 12), rtol=1e-4, atol=0)


def test_samples_are_limited_to_099(hift_config: HiFTConfig) -> None:
    samples = hum(hift_config, 4.0).decode(torch.zeros(1, 6, 2), torch.zeros(1, 1, 960))
    torch.testing.assert_close(samples, torch.full((1, 960), 0.99))


def test_a_mel_frame_becomes_480_samples_for_every_row_of_a_batch(code2wav: Code2Wav) -> None:
    mel = torch.randn(3, 6, 11)
    samples, source = code2wav.hift(mel, None)
    assert samples.shape == (3, 5280)
    assert source.shape == (3, 1, 5280)
    torch.testing.assert_close(samples[1:2], code2wav.hift(mel[1:2], None)[0], atol=5e-3, rtol=0)


def test_half_precision_mels_are_vocoded_in_float32(code2wav: Code2Wav) -> None:
    samples, _ = code2wav.hift(torch.randn(1, 6, 3).bfloat16(), None)
    assert samples.dtype == torch.float32


def test_a_residual_block_keeps_length_and_has_dilations_1_3_5() -> None:
    block = ResBlock(4, 7)
    assert [conv.dilation for conv in block.convs1] == [(1,), (3,), (5,)]
    assert block(torch.randn(1, 4, 19)).shape == (1, 4, 19)


def test_a_vocoder_can_be_built_without_memory(hift_config: HiFTConfig) -> None:
    with torch.device("meta"):
        assert all(value.is_meta for value in HiFT(hift_config).state_dict().values())
