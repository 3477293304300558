"""Sizes of the HiFT vocoder, read from the shapes of its weights: the checkpoint has no configuration file for it."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from antiphon.core.errors import CheckpointError

SAMPLE_RATE_HZ = 24_000
SAMPLES_PER_FRAME = 480  # mel at 50 Hz
DILATIONS = (1, 3, 5)  # of the three convolutions of each residual block; shapes do not show them
STFT_OVERLAP = 4  # window ÷ hop

Shape = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class HiFTConfig:
    """Sizes of one HiFT vocoder (model specification, section 4.7)."""

    num_mel_bins: int
    base_channels: int
    f0_channels: int
    num_f0_layers: int
    num_harmonics: int  # the fundamental is one of them
    up_rates: tuple[int, ...]
    up_kernels: tuple[int, ...]
    source_kernels: tuple[int, ...]  # of the residual blocks on the source path, one a stage
    kernels: tuple[int, ...]  # of the parallel residual blocks of each stage
    n_fft: int
    pre_kernel: int
    post_kernel: int

    def __post_init__(self) -> None:
        if prod(self.up_rates) * self.hop != SAMPLES_PER_FRAME:
            raise CheckpointError(
                f"hift: up-sampling by {self.up_rates} and an STFT hop of {self.hop} make "
                f"{prod(self.up_rates) * self.hop} samples of one mel frame; only {SAMPLES_PER_FRAME} is supported"
            )
        if any(
            kernel < rate or (kernel - rate) % 2 for kernel, rate in zip(self.up_kernels, self.up_rates, strict=True)
        ):
            raise CheckpointError(f"hift: up-sampling kernels {self.up_kernels} do not fit the rates {self.up_rates}")

    @property
    def hop(self) -> int:
        return self.n_fft // STFT_OVERLAP

    @property
    def source_strides(self) -> tuple[int, ...]:
        """By how much the source's STFT frames are thinned to meet each stage: what is left to up-sample after it."""
        return tuple(prod(self.up_rates[stage + 1 :]) for stage in range(len(self.up_rates)))

    def channels(self, stage: int) -> int:
        """Channels after up-sampling *stage*; −1 is the input."""
        return self.base_channels >> (stage + 1)

    @staticmethod
    def real() -> "HiFTConfig":
        """The published checkpoint's vocoder: 20.8 M parameters."""
        return HiFTConfig(
            num_mel_bins=80,
            base_channels=512,
            f0_channels=512,
            num_f0_layers=5,
            num_harmonics=9,
            up_rates=(8, 5, 3),
            up_kernels=(16, 11, 7),
            source_kernels=(7, 7, 11),
            kernels=(3, 7, 11),
            n_fft=16,
            pre_kernel=7,
            post_kernel=7,
        )

    @staticmethod
    def from_shapes(shapes: Mapping[str, Shape]) -> "HiFTConfig":
        """Infer the sizes from parameter names and shapes, weight norm already folded to plain `weight`.

        Raises:
            CheckpointError: A name is missing, or the shapes are those of another vocoder.
        """
        num_stages = _count(shapes, "ups.{}.weight")
        base, num_mel_bins, pre_kernel = _shape(shapes, "conv_pre.weight", 3)
        post_channels, _, post_kernel = _shape(shapes, "conv_post.weight", 3)
        num_blocks = _count(shapes, "resblocks.{}.convs1.0.weight")
        if num_stages == 0 or num_blocks == 0 or num_blocks % num_stages:
            raise CheckpointError(f"hift: {num_blocks} residual blocks for {num_stages} up-sampling stages")
        num_dilations = _count(shapes, "resblocks.0.convs1.{}.weight")
        if num_dilations != len(DILATIONS):
            raise CheckpointError(
                f"hift: residual blocks have {num_dilations} convolutions, only {len(DILATIONS)} is supported"
            )
        n_fft = post_channels - 2  # log magnitude and phase of n_fft / 2 + 1 bins each
        if n_fft <= 0 or n_fft % STFT_OVERLAP:
            raise CheckpointError(
                f"hift: conv_post has {post_channels} channels, which is no STFT of overlap {STFT_OVERLAP}"
            )
        return HiFTConfig(
            num_mel_bins=num_mel_bins,
            base_channels=base,
            f0_channels=_shape(shapes, "f0_predictor.classifier.weight", 2)[1],
            num_f0_layers=_count(shapes, "f0_predictor.condnet.{}.weight", step=2),
            num_harmonics=_shape(shapes, "m_source.l_linear.weight", 2)[1],
            up_rates=_up_rates(shapes, num_stages, n_fft),
            up_kernels=tuple(_shape(shapes, f"ups.{stage}.weight", 3)[2] for stage in range(num_stages)),
            source_kernels=tuple(
                _shape(shapes, f"source_resblocks.{stage}.convs1.0.weight", 3)[2] for stage in range(num_stages)
            ),
            kernels=tuple(
                _shape(shapes, f"resblocks.{index}.convs1.0.weight", 3)[2] for index in range(num_blocks // num_stages)
            ),
            n_fft=n_fft,
            pre_kernel=pre_kernel,
            post_kernel=post_kernel,
        )


def _up_rates(shapes: Mapping[str, Shape], num_stages: int, n_fft: int) -> tuple[int, ...]:
    """Rates from the source path: its convolution of stage i has kernel 2s for stride s (1 for stride 1)."""
    kernels = [_shape(shapes, f"source_downs.{stage}.weight", 3)[2] for stage in range(num_stages)]
    strides = [1 if kernel == 1 else kernel // 2 for kernel in kernels]
    strides = [SAMPLES_PER_FRAME * STFT_OVERLAP // n_fft, *strides]
    return tuple(before // after for before, after in pairwise(strides))


def _count(shapes: Mapping[str, Shape], pattern: str, step: int = 1) -> int:
    count = 0
    while pattern.format(count * step) in shapes:
        count += 1
    return count


def _shape(shapes: Mapping[str, Shape], name: str, num_dims: int) -> Shape:
    shape = shapes.get(name)
    if shape is None:
        raise CheckpointError(f"hift: tensor {name!r} is missing")
    if len(shape) != num_dims:
        raise CheckpointError(f"hift: tensor {name!r} has shape {tuple(shape)}, expected {num_dims} dimensions")
    return tuple(shape)
