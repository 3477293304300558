"""The vocoder's short-time Fourier transform and its inverse: periodic Hann window, centred frames."""

from math import pi

import torch
from torch import Tensor
from torch.nn.functional import conv_transpose1d


def analyse(samples: Tensor, n_fft: int, hop: int) -> Tensor:
    """Spectrum of *samples* [B, N]: real parts, then imaginary parts, [B, n_fft + 2, N / hop + 1].

    Edges are reflected.
    """
    window = torch.hann_window(n_fft, device=samples.device)
    spectrum = torch.stft(samples, n_fft, hop, window=window, center=True, pad_mode="reflect", return_complex=True)
    return torch.cat((spectrum.real, spectrum.imag), dim=1)


def synthesise(real: Tensor, imaginary: Tensor, n_fft: int, hop: int) -> Tensor:
    """Samples [B, (T − 1) · hop] of a spectrum, each part [B, n_fft / 2 + 1, T].

    Inverse transform, window and overlap-add are one transposed convolution, the divisor another over ones.
    `torch.istft` computes the same but asks the device whether the windows overlap enough, which no captured graph may
    do.
    """
    device, num_bins = real.device, n_fft // 2 + 1
    window = torch.hann_window(n_fft, device=device)
    bins = torch.arange(num_bins, device=device, dtype=torch.float64)
    angle = 2 * pi / n_fft * bins[:, None] * torch.arange(n_fft, device=device, dtype=torch.float64)
    inner = ((bins > 0) & (bins < n_fft // 2)).to(torch.float64)  # the two outer bins are real and stand alone
    cosines = (1 + inner)[:, None] / n_fft * angle.cos()
    sines = -2 * inner[:, None] / n_fft * angle.sin()
    basis = torch.cat((cosines, sines)).to(real.dtype) * window
    summed = conv_transpose1d(torch.cat((real, imaginary), dim=1), basis[:, None], stride=hop)
    divisor = conv_transpose1d(real.new_ones(1, 1, real.shape[2]), window.square()[None, None], stride=hop)
    edge = n_fft // 2
    return (summed[:, 0, edge:-edge]) / divisor[:, 0, edge:-edge]
