"""The excitation of the HiFT vocoder: harmonics of the pitch while voiced, noise otherwise.

Model specification, section 4.7. The reference also draws a random initial phase, but adds it only at sample 0, which
its down-sampling by 480 never reads. So phases are deterministic and the additive noise is the only chance; it comes in
as data.
"""

from math import pi
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from antiphon.models.code2wav.config import SAMPLE_RATE_HZ, SAMPLES_PER_FRAME

SINE_AMPLITUDE = 0.1
VOICED_ABOVE_HZ = 10.0
VOICED_NOISE_STD = 0.003


class SourceNoise(Protocol):
    """Where the excitation's noise comes from."""

    def draw(self, num_samples: int, num_harmonics: int, device: torch.device) -> Tensor | None:
        """Standard normal [1, num_samples, num_harmonics] float32 on *device*; None stands for zeros."""
        ...


class NoSourceNoise:
    """No noise at all: the same samples every time. Unvoiced speech sounds wrong; for comparisons."""

    def draw(self, num_samples: int, num_harmonics: int, device: torch.device) -> Tensor | None:  # noqa: ARG002
        return None


class SeededSourceNoise:
    """Draws from a CPU generator of its own, so that a seed means the same on every device."""

    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)

    def draw(self, num_samples: int, num_harmonics: int, device: torch.device) -> Tensor | None:
        return torch.randn(1, num_samples, num_harmonics, generator=self._generator).to(device)


class HarmonicSource(nn.Module):
    """Pitch to excitation. The linear layer that mixes the harmonics is the only weight."""

    def __init__(self, num_harmonics: int) -> None:
        super().__init__()
        self.num_harmonics = num_harmonics
        self.l_linear = nn.Linear(num_harmonics, 1)

    def forward(self, f0: Tensor, noise: Tensor | None) -> Tensor:
        """Excitation [B, 1, 480 · M] of pitch *f0* [B, M] in Hz, float32; *noise* as drawn by a `SourceNoise`."""
        voiced = (f0 > VOICED_ABOVE_HZ).to(f0.dtype).repeat_interleave(SAMPLES_PER_FRAME, dim=1)[..., None]
        signal = self._sines(f0) * voiced
        if noise is not None:
            signal = signal + (voiced * VOICED_NOISE_STD + (1 - voiced) * (SINE_AMPLITUDE / 3)) * noise
        return torch.tanh(self.l_linear(signal)).transpose(1, 2)

    def _sines(self, f0: Tensor) -> Tensor:
        """Sines of the harmonics, [B, 480 · M, harmonics]; the phase starts at 0 with the first frame.

        Up- and down-sampling the pitch by 480 (nearest, then linear on half pixels) returns the frame's own value, so
        the phase is summed per frame. The order of the products is the reference's: the sum is long, and float32.
        """
        harmonic = torch.arange(1, self.num_harmonics + 1, dtype=f0.dtype, device=f0.device)
        cycles = (f0[:, None, :] * harmonic[:, None] / SAMPLE_RATE_HZ) % 1
        phase = torch.cumsum(cycles, dim=2) * 2 * pi * SAMPLES_PER_FRAME
        phase = interpolate(phase, scale_factor=float(SAMPLES_PER_FRAME), mode="linear")
        return SINE_AMPLITUDE * torch.sin(phase).transpose(1, 2)
