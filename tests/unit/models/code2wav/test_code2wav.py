import torch

from antiphon.config.checkpoint import DiTConfig, FlowConfig, FlowEncoderConfig
from antiphon.models.code2wav.code2wav import Code2Wav
from antiphon.models.code2wav.config import HiFTConfig
from antiphon.models.code2wav.flow import VoicePrompt
from antiphon.models.code2wav.hift_source import NoSourceNoise

NO_NOISE = NoSourceNoise()


def test_the_real_flow_model_has_the_published_tensors_and_parameters() -> None:
    flow = FlowConfig(
        num_codec_ids=6561,
        embedding_size=512,
        num_mel_bins=80,
        speaker_size=192,
        cfg_rate=0.7,
        encoder=FlowEncoderConfig(
            input_size=512,
            output_size=512,
            num_heads=8,
            linear_units=2048,
            num_blocks=6,
            num_up_blocks=4,
            up_stride=2,
            lookahead=3,
        ),
        dit=DiTConfig(
            in_channels=320, out_channels=80, hidden_size=512, depth=16, num_heads=8, head_dim=64, mlp_ratio=4.0
        ),
    )
    with torch.device("meta"):
        model = Code2Wav(flow, HiFTConfig.real())
    weights = model.flow.state_dict()
    assert len(weights) == 605
    assert sum(value.numel() for value in weights.values()) == 155_802_352
    assert "decoder.estimator.blocks.15.conv.block.6.weight" in weights


def test_two_streams_of_a_voice_do_not_touch_each_other(
    code2wav: Code2Wav, voice: VoicePrompt, noise: torch.Tensor
) -> None:
    template = code2wav.template(voice, noise, 2)
    codes = torch.arange(28)[None]
    alone, _ = code2wav.chunk(codes, template, template.open(), noise, NO_NOISE, is_last=False)
    one, other = template.open(), template.open()
    code2wav.chunk(codes + 100, template, one, noise, NO_NOISE, is_last=False)
    beside, _ = code2wav.chunk(codes, template, other, noise, NO_NOISE, is_last=False)
    assert torch.equal(alone, beside)
    assert one.flow.solver.keys.data_ptr() != template.flow.solver.keys.data_ptr()


def test_a_whole_utterance_is_960_samples_a_code(code2wav: Code2Wav, voice: VoicePrompt, noise: torch.Tensor) -> None:
    samples = code2wav.synthesise(torch.arange(7)[None], voice, noise, NO_NOISE, 2)
    assert samples.shape == (1, 6_720)
    assert bool(samples.any())
