"""Names, shapes and batching of the whole Thinker."""

from dataclasses import replace

import pytest
import torch

from antiphon.config.checkpoint import ModelConfig
from antiphon.config.checkpoint_files import shipped_model_config
from antiphon.layers.kv_cache import CausalAttend, KVCache
from antiphon.models.thinker.thinker import Thinker


def tiny_config() -> ModelConfig:
    real = shipped_model_config()
    return replace(
        real,
        vocab_size=31,
        num_queries=4,
        llm=replace(
            real.llm,
            hidden_size=128,
            intermediate_size=24,
            num_layers=2,
            num_heads=4,
            num_kv_heads=2,
            head_dim=6,
        ),
        vision=replace(
            real.vision, hidden_size=16, intermediate_size=24, num_layers=1, num_heads=2, table_side=8, batch_size=2
        ),
        audio=replace(real.audio, hidden_size=16, intermediate_size=24, num_layers=1, num_heads=2),
    )


@pytest.fixture(scope="module")
def thinker() -> Thinker:
    torch.manual_seed(4)
    model = Thinker(tiny_config())
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return model.eval().requires_grad_(False)


def test_the_real_model_has_the_checkpoints_names() -> None:
    with torch.device("meta"):
        shapes = {name: tuple(value.shape) for name, value in Thinker(shipped_model_config()).named_parameters()}
    assert len(shapes) == 1220
    assert shapes["llm.model.embed_tokens.weight"] == shapes["llm.lm_head.weight"] == (151_748, 4096)
    assert shapes["llm.model.layers.35.self_attn.k_norm.weight"] == (128,)
    assert shapes["vpm.embeddings.position_embedding.weight"] == (4900, 1152)
    assert shapes["resampler.attn.in_proj_weight"] == (12_288, 4096)
    assert shapes["apm.layers.23.fc2.bias"] == (1024,)
    assert "apm.layers.0.self_attn.k_proj.bias" not in shapes
    assert shapes["audio_projection_layer.linear1.weight"] == (4096, 1024)


def test_a_prompt_gives_hidden_rows_and_logits(thinker: Thinker) -> None:
    embeds = thinker.embed(torch.tensor([1, 2, 3]))
    hidden = thinker(embeds, torch.arange(3), CausalAttend(KVCache(2)))
    assert hidden.shape == (3, 128)
    assert thinker.logits(hidden[-1]).shape == (31,)


def test_images_are_encoded_in_order_across_batches(thinker: Thinker) -> None:
    grids = [(1, 2), (3, 1), (2, 2)]  # one more than fits a batch
    strips = [torch.randn(3, 14, 14 * rows * columns) for rows, columns in grids]
    together = thinker.encode_images(strips, grids)
    for index in range(3):
        alone = thinker.encode_images(strips[index : index + 1], grids[index : index + 1])[0]
        assert alone.shape == (4, 128)
        torch.testing.assert_close(together[index], alone)


def test_no_media_give_no_rows(thinker: Thinker) -> None:
    assert thinker.encode_images([], []) == []
    assert thinker.encode_audio([]) == []


def test_clips_keep_their_own_number_of_rows(thinker: Thinker) -> None:
    mels = [torch.randn(80, frames) for frames in (100, 10, 8)]
    assert [rows.shape for rows in thinker.encode_audio(mels)] == [(10, 128), (1, 128), (0, 128)]


def test_a_shorter_clip_sees_the_padding_of_its_batch(thinker: Thinker) -> None:
    short, long = torch.randn(80, 25), torch.randn(80, 100)
    alone, together = thinker.encode_audio([short])[0], thinker.encode_audio([short, long])[0]
    assert (alone - together).abs().max() > 1e-4


def test_a_stream_step_gives_ten_rows_a_second(thinker: Thinker) -> None:
    state = thinker.new_audio_stream()
    assert thinker.encode_audio_step(torch.randn(80, 102), state, trim_front=0, trim_end=1).shape == (10, 128)
    assert thinker.encode_audio_step(torch.randn(80, 104), state, trim_front=1, trim_end=1).shape == (10, 128)
    assert len(state) == 100


def test_bfloat16_weights_give_nearly_the_same(thinker: Thinker) -> None:
    half = Thinker(tiny_config())
    half.load_state_dict(thinker.state_dict())
    half.to(torch.bfloat16)
    strip, mel = torch.randn(3, 14, 14 * 6), torch.randn(80, 100)
    for ours, theirs in (
        (half.encode_images([strip], [(2, 3)])[0], thinker.encode_images([strip], [(2, 3)])[0]),
        (half.encode_audio([mel])[0], thinker.encode_audio([mel])[0]),
    ):
        assert ours.dtype is torch.bfloat16
        assert (ours.float() - theirs).norm() < 0.05 * theirs.norm()
