"""The Thinker's parts against other implementations with the same random weights."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers import (
    Qwen3Config,
    Qwen3Model,
    SiglipVisionConfig,
    SiglipVisionModel,
    WhisperConfig,
    WhisperFeatureExtractor,
)
from transformers.models.whisper.modeling_whisper import WhisperEncoder

from antiphon.audio.mel import offline_mels
from antiphon.config.checkpoint import AudioConfig, DecoderConfig, VisionConfig
from antiphon.layers.kv_cache import CausalAttend, KVCache
from antiphon.models.thinker.audio_encoder import AudioEncoder, AudioStreamState
from antiphon.models.thinker.language_model import LanguageModel
from antiphon.models.thinker.resampler import ResamplerAttention
from antiphon.models.thinker.siglip import SiglipEncoder


def randomise(module: nn.Module, std: float = 0.3) -> None:
    torch.manual_seed(6)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=std)
    module.eval().requires_grad_(False)


@pytest.mark.parametrize(("num_heads", "num_kv_heads", "head_dim"), [(4, 2, 6), (3, 1, 10), (2, 2, 16)])
def test_the_language_model_is_qwen3(num_heads: int, num_kv_heads: int, head_dim: int) -> None:
    oracle = Qwen3Model(
        Qwen3Config(
            vocab_size=29,
            hidden_size=20,
            intermediate_size=28,
            num_hidden_layers=3,
            num_attention_heads=num_heads,
            num_key_value_heads=num_kv_heads,
            head_dim=head_dim,
            rms_norm_eps=1e-6,
            rope_theta=1_000_000.0,
        )
    )
    randomise(oracle)
    config = DecoderConfig(
        hidden_size=20,
        intermediate_size=28,
        num_layers=3,
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_dim=head_dim,
        rms_norm_eps=1e-6,
        rope_theta=1_000_000.0,
        max_positions=64,
        has_qk_norm=True,
    )
    ours = LanguageModel(config, 29).eval()
    ours.model.load_state_dict(oracle.state_dict())
    ids = torch.randint(29, (11,))
    expected = oracle(input_ids=ids[None]).last_hidden_state[0]
    cache = KVCache(3)
    pieces = [ours(ours.embed(ids[a:b]), torch.arange(a, b), CausalAttend(cache)) for a, b in ((0, 1), (1, 7), (7, 11))]
    torch.testing.assert_close(torch.cat(pieces), expected, atol=1e-5, rtol=1e-4)


def audio_pair(max_positions: int) -> tuple[AudioEncoder, WhisperEncoder]:
    oracle = WhisperEncoder(
        WhisperConfig(
            d_model=18,
            encoder_layers=2,
            encoder_attention_heads=2,
            encoder_ffn_dim=20,
            num_mel_bins=80,
            max_source_positions=max_positions,
        )
    )
    randomise(oracle)
    config = AudioConfig(
        hidden_size=18,
        intermediate_size=20,
        num_layers=2,
        num_heads=2,
        num_mel_bins=80,
        max_positions=max_positions,
        pool_step=5,
        chunk_s=0.2,
    )
    ours = AudioEncoder(config).eval()
    ours.load_state_dict(oracle.state_dict())
    return ours, oracle


def masked_oracle(oracle: WhisperEncoder, frames: Tensor, visible: Tensor) -> Tensor:
    """The oracle's layers over *frames* [B, T, d] with a bool mask [B, T, T] of what each query may see."""
    bias = torch.zeros(visible.shape).masked_fill(~visible, torch.finfo(torch.float32).min)[:, None]
    for layer in oracle.layers:
        out = layer(frames, attention_mask=bias, layer_head_mask=None)
        frames = out[0] if isinstance(out, tuple) else out
    result: Tensor = oracle.layer_norm(frames)
    return result


def oracle_frames(oracle: WhisperEncoder, mel: Tensor) -> Tensor:
    gelu = nn.functional.gelu
    frames: Tensor = gelu(oracle.conv2(gelu(oracle.conv1(mel)))).transpose(1, 2)
    return frames


def test_the_audio_encoder_is_whispers() -> None:
    ours, oracle = audio_pair(max_positions=37)
    mel = torch.randn(80, 74)
    expected = oracle(mel[None]).last_hidden_state
    torch.testing.assert_close(ours([mel], block_mask=False), expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("block_mask", [True, False])
def test_ragged_clips_see_blocks_and_the_padding_that_the_reference_shows(block_mask: bool) -> None:
    ours, oracle = audio_pair(max_positions=40)
    lengths = (1, 13, 61, 80)
    mels = [torch.randn(80, length) for length in lengths]
    batch = torch.stack([nn.functional.pad(mel, (0, 80 - mel.shape[1])) for mel in mels])
    visible = torch.zeros(4, 40, 40, dtype=torch.bool)
    for clip, length in enumerate(lengths):
        for query in range(40):
            block_end = (query // 10 + 1) * 10 if block_mask else 40
            visible[clip, query, : min(block_end, length)] = True
    frames = oracle_frames(oracle, batch) + oracle.embed_positions.weight
    expected = masked_oracle(oracle, frames, visible)
    torch.testing.assert_close(ours(mels, block_mask=block_mask), expected, atol=1e-5, rtol=1e-4)


def test_a_stream_is_attention_over_what_had_arrived() -> None:
    ours, oracle = audio_pair(max_positions=60)
    chunks = [(torch.randn(80, frames), front, end) for frames, front, end in ((22, 0, 1), (24, 1, 1), (9, 0, 0))]
    state = AudioStreamState(2)
    streamed = torch.cat([ours.step(mel, state, trim_front=front, trim_end=end) for mel, front, end in chunks])
    pieces = []
    for mel, front, end in chunks:
        frames = oracle_frames(oracle, mel[None])
        pieces.append(frames[:, front : frames.shape[1] - end])
    joined = torch.cat(pieces, dim=1)
    ends = np.cumsum([0] + [piece.shape[1] for piece in pieces]).tolist()
    visible = torch.zeros(1, ends[-1], ends[-1], dtype=torch.bool)
    for start, end in pairwise(ends):
        visible[0, start:end, :end] = True
    expected = masked_oracle(oracle, joined + oracle.embed_positions.weight[: ends[-1]], visible)
    torch.testing.assert_close(streamed, expected[0], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(("hidden_size", "num_heads"), [(30, 3), (14, 2), (16, 1)])
def test_the_vision_encoder_is_siglip_on_a_full_grid(hidden_size: int, num_heads: int) -> None:
    side, patch_size = 6, 5
    oracle = SiglipVisionModel(
        SiglipVisionConfig(
            hidden_size=hidden_size,
            intermediate_size=22,
            num_hidden_layers=2,
            num_attention_heads=num_heads,
            image_size=side * patch_size,
            patch_size=patch_size,
            vision_use_head=False,
        )
    )
    randomise(oracle)
    config = VisionConfig(
        hidden_size=hidden_size,
        intermediate_size=22,
        num_layers=2,
        num_heads=num_heads,
        patch_size=patch_size,
        num_channels=3,
        table_side=side,
        layer_norm_eps=1e-6,
        batch_size=2,
        drop_last_layer=False,
    )
    ours = SiglipEncoder(config).eval()
    ours.load_state_dict(
        {
            name.removeprefix("vision_model."): value
            for name, value in oracle.state_dict().items()
            if "position_ids" not in name
        }
    )
    images = torch.randn(2, 3, side * patch_size, side * patch_size)
    cells = images.reshape(2, 3, side, patch_size, side, patch_size).permute(0, 1, 3, 2, 4, 5)
    strips = cells.reshape(2, 3, patch_size, side * side * patch_size)
    features, valid = ours(list(strips), [(side, side)] * 2)
    assert valid is None
    torch.testing.assert_close(features, oracle(images).last_hidden_state, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("lengths", [(7, 7), (1, 7), (3, 5)])
def test_the_resamplers_attention_is_multi_head_attention(lengths: tuple[int, int]) -> None:
    oracle = nn.MultiheadAttention(256, 2, batch_first=True)
    randomise(oracle, std=0.06)
    ours = ResamplerAttention(256).eval()
    ours.load_state_dict(oracle.state_dict())
    query, key, value = torch.randn(4, 256), torch.randn(2, 7, 256), torch.randn(2, 7, 256)
    padded = torch.arange(7) >= torch.tensor(lengths)[:, None]
    expected, _ = oracle(query.expand(2, -1, -1), key, value, key_padding_mask=padded, need_weights=False)
    mixed = ours(query, key, value, ~padded[:, None, None, :])
    torch.testing.assert_close(mixed, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("num_samples", [400, 1_601, 23_456])
def test_offline_features_are_whispers(num_samples: int) -> None:
    samples = (0.1 * np.random.default_rng(7).standard_normal(num_samples)).astype(np.float32)
    samples[num_samples // 2 :] = 0  # so that the floor matters
    oracle = WhisperFeatureExtractor(feature_size=80)
    expected = oracle(samples, sampling_rate=16_000, return_tensors="np").input_features[0]
    (mel,) = offline_mels(samples)
    np.testing.assert_allclose(mel, expected[:, : mel.shape[1]], atol=1e-4)
