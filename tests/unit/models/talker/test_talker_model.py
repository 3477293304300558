from dataclasses import replace

import torch

from antiphon.config.checkpoint import DecoderConfig, TalkerConfig
from antiphon.layers.kv_cache import CausalAttend, KVCache
from antiphon.models.talker.talker import Talker

CONFIG = TalkerConfig(
    decoder=DecoderConfig(
        hidden_size=16,
        intermediate_size=24,
        num_layers=2,
        num_heads=2,
        num_kv_heads=2,
        head_dim=8,
        rms_norm_eps=1e-6,
        rope_theta=10_000.0,
        max_positions=64,
        has_qk_norm=False,
    ),
    llm_hidden_size=12,
    num_codec_ids=32,
    num_text_ids=40,
    audio_bos_id=38,
    text_eos_id=39,
    normalize_projected=True,
    attention_type="full_attention",
    window_chunks=2,
    recomputed_chunks=1,
    window_tokens=12,
)


def make(**changes):
    torch.manual_seed(2)
    return Talker(replace(CONFIG, **changes)).requires_grad_(False)


def test_names_are_the_checkpoints_without_the_prefix():
    layer = {
        *(f"self_attn.{name}_proj.weight" for name in "qkvo"),
        *(f"mlp.{name}_proj.weight" for name in ("gate", "up", "down")),
        "input_layernorm.weight",
        "post_attention_layernorm.weight",
    }
    assert set(make().state_dict()) == {
        *(f"model.layers.{index}.{name}" for index in range(2) for name in layer),
        "model.norm.weight",
        "emb_text.weight",
        "emb_code.0.weight",
        "head_code.0.weight",
        *(f"projector_semantic.linear{index}.{leaf}" for index in (1, 2) for leaf in ("weight", "bias")),
    }


def test_the_projected_part_of_a_condition_has_length_one():
    talker = make()
    ids, hidden = torch.tensor([3, 4]), torch.randn(2, 12) * 50
    projected = talker.condition(ids, hidden) - talker.embed_text(ids)
    torch.testing.assert_close(projected.norm(dim=-1), torch.ones(2))


def test_a_row_projected_to_nothing_stays_finite():
    talker = make()
    talker.projector_semantic.linear2.weight.zero_()
    talker.projector_semantic.linear2.bias.zero_()
    assert torch.equal(talker.condition(torch.tensor([3]), torch.ones(1, 12)), talker.embed_text(torch.tensor([3])))


def test_normalising_follows_the_checkpoint_unless_told():
    talker = make(normalize_projected=False)
    ids, hidden = torch.tensor([3]), torch.randn(1, 12) * 50
    plain = talker.condition(ids, hidden) - talker.embed_text(ids)
    torch.testing.assert_close(plain, talker.projector_semantic(hidden))
    told = talker.condition(ids, hidden, normalized=True) - talker.embed_text(ids)
    torch.testing.assert_close(told.norm(), torch.tensor(1.0))


def test_codes_have_a_table_of_their_own():
    talker = make()
    assert torch.equal(talker.embed_codes(torch.tensor([31])), talker.emb_code[0].weight[31:])


def test_scores_are_float32_in_half_precision_too():
    talker = make().bfloat16()
    hidden = talker(
        talker.embed_codes(torch.tensor([1, 2])), torch.arange(2), CausalAttend(KVCache(CONFIG.decoder.num_layers))
    )
    assert hidden.dtype == torch.bfloat16
    scores = talker.logits(hidden)
    assert (scores.dtype, scores.shape) == (torch.float32, (2, 32))
