"""HiFT vocoder: mel at 50 Hz to samples at 24 kHz, through pitch, excitation and an inverse STFT.

Model specification, section 4.7. Always float32: the exponential, the sine of the phase and the long sum of the
excitation do not survive half precision. Weight norm is folded at load, so every convolution has a plain `weight`.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu, pad

from antiphon.models.code2wav.config import DILATIONS, SAMPLES_PER_FRAME, HiFTConfig
from antiphon.models.code2wav.hift_source import HarmonicSource
from antiphon.models.code2wav.spectrum import analyse, synthesise

MAX_MAGNITUDE = 100.0
MAX_SAMPLE = 0.99


class Snake(nn.Module):
    """x + sin²(αx) / α, α per channel."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(channels))

    def forward(self, x: Tensor) -> Tensor:
        alpha = self.alpha[:, None]
        return x + torch.sin(x * alpha).square() / (alpha + 1e-9)


class ResBlock(nn.Module):
    """Pairs of a dilated and a plain convolution, each after a Snake, added to their input."""

    def __init__(self, channels: int, kernel: int) -> None:
        super().__init__()
        self.convs1 = nn.ModuleList(
            nn.Conv1d(channels, channels, kernel, dilation=dilation, padding=dilation * (kernel - 1) // 2)
            for dilation in DILATIONS
        )
        self.convs2 = nn.ModuleList(nn.Conv1d(channels, channels, kernel, padding=(kernel - 1) // 2) for _ in DILATIONS)
        self.activations1 = nn.ModuleList(Snake(channels) for _ in DILATIONS)
        self.activations2 = nn.ModuleList(Snake(channels) for _ in DILATIONS)

    def forward(self, x: Tensor) -> Tensor:
        for dilated, plain, first, second in zip(
            self.convs1, self.convs2, self.activations1, self.activations2, strict=True
        ):
            x = x + plain(second(dilated(first(x))))
        return x


class F0Predictor(nn.Module):
    """Pitch of every mel frame in Hz; what comes out below 10 Hz counts as unvoiced."""

    def __init__(self, config: HiFTConfig) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = config.num_mel_bins
        for _ in range(config.num_f0_layers):
            layers += [nn.Conv1d(channels, config.f0_channels, 3, padding=1), nn.ELU()]
            channels = config.f0_channels
        self.condnet = nn.Sequential(*layers)
        self.classifier = nn.Linear(channels, 1)

    def forward(self, mel: Tensor) -> Tensor:
        """*mel* [B, mel, M] → [B, M]."""
        f0: Tensor = self.classifier(self.condnet(mel).transpose(1, 2)).squeeze(-1)
        return f0.abs()


class HiFT(nn.Module):
    """The vocoder. Sub-module names are those of `hift.pt`."""

    def __init__(self, config: HiFTConfig) -> None:
        super().__init__()
        self.config = config
        stages = range(len(config.up_rates))
        self.m_source = HarmonicSource(config.num_harmonics)
        self.f0_predictor = F0Predictor(config)
        self.conv_pre = nn.Conv1d(
            config.num_mel_bins, config.base_channels, config.pre_kernel, padding=config.pre_kernel // 2
        )
        self.ups = nn.ModuleList(
            nn.ConvTranspose1d(
                config.channels(stage - 1), config.channels(stage), kernel, rate, padding=(kernel - rate) // 2
            )
            for stage, (rate, kernel) in enumerate(zip(config.up_rates, config.up_kernels, strict=True))
        )
        self.source_downs = nn.ModuleList(
            nn.Conv1d(
                config.n_fft + 2,
                config.channels(stage),
                1 if stride == 1 else 2 * stride,
                stride,
                padding=0 if stride == 1 else stride // 2,
            )
            for stage, stride in enumerate(config.source_strides)
        )
        self.source_resblocks = nn.ModuleList(
            ResBlock(config.channels(stage), config.source_kernels[stage]) for stage in stages
        )
        self.resblocks = nn.ModuleList(
            ResBlock(config.channels(stage), kernel) for stage in stages for kernel in config.kernels
        )
        self.conv_post = nn.Conv1d(
            config.channels(len(stages) - 1), config.n_fft + 2, config.post_kernel, padding=config.post_kernel // 2
        )

    def forward(self, mel: Tensor, noise: Tensor | None, source_head: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Vocode a mel.

        Args:
            mel: log-mel, [B, mel, M].
            noise: of the excitation, [1, 480 · M, harmonics]; None for none.
            source_head: excitation to put in place of the first samples, [B, 1, n], n ≤ 480 · M: a stream's continuity.

        Returns:
            Samples [B, 480 · M] within ±0.99, and the excitation [B, 1, 480 · M], both float32.
        """
        mel = mel.float()
        source = self.m_source(self.f0_predictor(mel), noise)
        if source_head is not None:
            source = torch.cat((source_head, source[:, :, source_head.shape[2] :]), dim=2)
        return self.decode(mel, source), source

    def decode(self, mel: Tensor, source: Tensor) -> Tensor:
        """Samples [B, 480 · M] from *mel* [B, mel, M] and the excitation [B, 1, 480 · M], float32."""
        config = self.config
        excitation = analyse(source[:, 0], config.n_fft, config.hop)
        x = self.conv_pre(mel)
        num_kernels = len(config.kernels)
        for stage, up in enumerate(self.ups):
            x = up(leaky_relu(x, 0.1))
            if stage == len(self.ups) - 1:
                x = pad(x, (1, 0), mode="reflect")  # one STFT frame more than mel frames × rates
            x = x + self.source_resblocks[stage](self.source_downs[stage](excitation))
            blocks = [self.resblocks[stage * num_kernels + index](x) for index in range(num_kernels)]
            x = torch.stack(blocks).mean(dim=0)
        x = self.conv_post(leaky_relu(x, 0.01))  # 0.01 here, 0.1 inside: the reference leaves this one at the default
        num_bins = config.n_fft // 2 + 1
        magnitude = torch.exp(x[:, :num_bins]).clamp(max=MAX_MAGNITUDE)
        phase = torch.sin(x[:, num_bins:])
        samples = synthesise(magnitude * phase.cos(), magnitude * phase.sin(), config.n_fft, config.hop)
        return samples.clamp(-MAX_SAMPLE, MAX_SAMPLE)


def num_samples(mel: Tensor) -> int:
    """Samples that a mel [B, mel, M] becomes."""
    return mel.shape[2] * SAMPLES_PER_FRAME
