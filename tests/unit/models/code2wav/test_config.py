import re
from dataclasses import replace

import pytest
import torch

from antiphon.core.errors import CheckpointError
from antiphon.models.code2wav.config import HiFTConfig
from antiphon.models.code2wav.hift import HiFT

Shapes = dict[str, tuple[int, ...]]


def shapes_of(config: HiFTConfig) -> Shapes:
    with torch.device("meta"):
        return {name: tuple(value.shape) for name, value in HiFT(config).state_dict().items()}


@pytest.mark.parametrize(
    "config",
    [
        HiFTConfig.real(),
        replace(HiFTConfig.real(), base_channels=40, f0_channels=6, num_harmonics=5, num_mel_bins=20),
        replace(HiFTConfig.real(), kernels=(3, 5), source_kernels=(5, 3, 7), num_f0_layers=3, pre_kernel=5),
        replace(HiFTConfig.real(), up_rates=(5, 6), up_kernels=(9, 12), source_kernels=(7, 7), n_fft=64),
    ],
)
def test_sizes_are_read_back_from_the_shapes_they_make(config: HiFTConfig) -> None:
    assert HiFTConfig.from_shapes(shapes_of(config)) == config


def test_the_real_vocoder_has_the_published_number_of_tensors_and_parameters() -> None:
    shapes = shapes_of(HiFTConfig.real())
    num_normed = 82  # stored as magnitude and direction, one tensor more each
    assert len(shapes) + num_normed == 328
    assert shapes["source_downs.0.weight"] == (256, 18, 30)
    assert shapes["ups.1.weight"] == (256, 128, 11)


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("conv_pre.weight", None, "'conv_pre.weight' is missing"),
        ("conv_post.weight", (17, 64, 7), "no STFT"),
        ("conv_pre.weight", (512, 80), "3 dimensions"),
        ("resblocks.8.convs1.0.weight", None, "8 residual blocks"),
        ("resblocks.0.convs1.2.weight", None, "2 convolutions"),
        ("source_downs.0.weight", (256, 18, 24), "do not fit"),
        ("ups.0.weight", (512, 256, 15), "do not fit"),
    ],
)
def test_another_vocoder_is_refused_by_name(name: str, shape: tuple[int, ...] | None, message: str) -> None:
    shapes = shapes_of(HiFTConfig.real())
    shapes.pop(name)
    if shape is not None:
        shapes[name] = shape
    with pytest.raises(CheckpointError, match=re.escape(message)):
        HiFTConfig.from_shapes(shapes)


def test_another_hop_is_refused() -> None:
    with pytest.raises(CheckpointError, match="make 320 samples of one mel frame"):
        replace(HiFTConfig.real(), up_rates=(8, 5, 2), up_kernels=(16, 11, 6))
