import pytest
import torch

from antiphon.config.checkpoint import DiTConfig, FlowConfig, FlowEncoderConfig
from antiphon.models.code2wav.code2wav import Code2Wav
from antiphon.models.code2wav.config import HiFTConfig
from antiphon.models.code2wav.flow import SILENCE_ID, VoicePrompt

FLOW = FlowConfig(
    num_codec_ids=SILENCE_ID + 2,
    embedding_size=8,
    num_mel_bins=6,
    speaker_size=5,
    cfg_rate=0.7,
    encoder=FlowEncoderConfig(
        input_size=8,
        output_size=8,
        num_heads=2,
        linear_units=12,
        num_blocks=2,
        num_up_blocks=1,
        up_stride=2,
        lookahead=3,
    ),
    dit=DiTConfig(in_channels=24, out_channels=6, hidden_size=12, depth=2, num_heads=2, head_dim=4, mlp_ratio=2.0),
)
HIFT = HiFTConfig(
    num_mel_bins=6,
    base_channels=16,
    f0_channels=4,
    num_f0_layers=2,
    num_harmonics=3,
    up_rates=(8, 5, 3),
    up_kernels=(16, 11, 7),
    source_kernels=(3, 3, 3),
    kernels=(3, 5),
    n_fft=16,
    pre_kernel=7,
    post_kernel=7,
)


@pytest.fixture
def hift_config() -> HiFTConfig:
    return HIFT


@pytest.fixture(scope="session")
def code2wav() -> Code2Wav:
    """Tiny, random, with six mel bins."""
    torch.manual_seed(8)
    model = Code2Wav(FLOW, HIFT)
    for name, parameter in model.named_parameters():
        torch.nn.init.uniform_(parameter, 0.5, 1.0) if "alpha" in name else torch.nn.init.normal_(parameter, std=0.2)
    return model.eval().requires_grad_(False)


@pytest.fixture(scope="session")
def voice() -> VoicePrompt:
    """30 codec ids: fewer mel frames than the 100 that the trimming rule keeps."""
    torch.manual_seed(9)
    return VoicePrompt(torch.randint(0, SILENCE_ID, (1, 30)), torch.randn(1, 5), torch.randn(1, 6, 60))


@pytest.fixture(scope="session")
def noise() -> torch.Tensor:
    return torch.randn(1, 6, 400, generator=torch.Generator().manual_seed(1))
