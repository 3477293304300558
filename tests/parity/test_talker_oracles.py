"""The Talker and the sampling rules against living implementations: transformers and torch."""

import pytest
import torch
from transformers import LlamaConfig, LlamaModel
from transformers.generation.logits_process import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from antiphon.config.checkpoint import DecoderConfig
from antiphon.engine.chat_sampling import ChatSampling, chat_scores
from antiphon.engine.logits_filters import keep_top_k, keep_top_p, penalise_present
from antiphon.layers.decoder import Decoder
from antiphon.layers.kv_cache import CausalAttend, KVCache
from antiphon.models.weight_norm import fold

SIZES = DecoderConfig(
    hidden_size=48,
    intermediate_size=96,
    num_layers=3,
    num_heads=4,
    num_kv_heads=4,
    head_dim=12,
    rms_norm_eps=1e-6,
    rope_theta=10_000.0,
    max_positions=4096,
    has_qk_norm=False,
)
VOCABULARY = 6562


@pytest.fixture(scope="module")
def backbones():
    torch.manual_seed(7)
    oracle = LlamaModel(
        LlamaConfig(
            vocab_size=8,
            hidden_size=SIZES.hidden_size,
            intermediate_size=SIZES.intermediate_size,
            num_hidden_layers=SIZES.num_layers,
            num_attention_heads=SIZES.num_heads,
            num_key_value_heads=SIZES.num_kv_heads,
            rope_theta=SIZES.rope_theta,
            rms_norm_eps=SIZES.rms_norm_eps,
            max_position_embeddings=SIZES.max_positions,
        )
    ).eval()
    weights = {name: value for name, value in oracle.state_dict().items() if name != "embed_tokens.weight"}
    ours = Decoder(SIZES)
    ours.load_state_dict(weights)
    return ours.requires_grad_(False), oracle.requires_grad_(False)


@pytest.mark.parametrize("start", [0, 3000])
def test_the_backbone_is_transformers_llama(backbones, start):
    ours, oracle = backbones
    embeds, positions = torch.randn(20, SIZES.hidden_size), torch.arange(start, start + 20)
    expected = oracle(inputs_embeds=embeds[None], position_ids=positions[None]).last_hidden_state[0]
    hidden = ours(embeds, positions, CausalAttend(KVCache(SIZES.num_layers)))
    torch.testing.assert_close(hidden, expected, atol=1e-5, rtol=1e-5)


def test_token_by_token_is_the_same_as_one_pass(backbones):
    ours, _ = backbones
    embeds = torch.randn(12, SIZES.hidden_size)
    whole = ours(embeds, torch.arange(12), CausalAttend(KVCache(SIZES.num_layers)))
    attend = CausalAttend(KVCache(SIZES.num_layers))
    steps = [ours(row[None], torch.tensor([position]), attend) for position, row in enumerate(embeds)]
    torch.testing.assert_close(torch.cat(steps), whole, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_the_talkers_filters_are_the_librarys_warpers_in_its_order(seed):
    torch.manual_seed(seed)
    scores = torch.randn(VOCABULARY) * 4
    warpers = LogitsProcessorList(
        [TopPLogitsWarper(0.85, min_tokens_to_keep=3), TopKLogitsWarper(25, min_tokens_to_keep=3)]
    )
    ours = keep_top_k(keep_top_p(scores, 0.85, min_keep=3), 25, min_keep=3)
    assert torch.equal(ours, warpers(torch.zeros(1, 1, dtype=torch.int64), scores[None])[0])


def test_a_peaked_distribution_keeps_three_ids_like_the_librarys_warpers():
    scores = torch.randn(VOCABULARY)
    scores[5] = 40.0
    oracle = TopPLogitsWarper(0.85, min_tokens_to_keep=3)(torch.zeros(1, 1, dtype=torch.int64), scores[None])[0]
    assert torch.equal(keep_top_p(scores, 0.85, min_keep=3), oracle)
    assert int(torch.isfinite(oracle).sum()) == 3


def test_the_presence_penalty_is_the_librarys():
    scores, seen = torch.randn(50), torch.tensor([3, 3, 7, 49])
    oracle = RepetitionPenaltyLogitsProcessor(1.02)(seen[None], scores[None].clone())[0]
    assert torch.equal(penalise_present(scores, seen, 1.02), oracle)


@pytest.mark.parametrize("sampling", [ChatSampling(), ChatSampling(top_k=40, top_p=0.95, min_p=0.1, temperature=1.3)])
def test_chat_scores_are_the_librarys_processors_in_its_order(sampling):
    torch.manual_seed(3)
    logits, generated = torch.randn(500) * 3, torch.randint(500, (30,))
    steps = LogitsProcessorList(
        [
            RepetitionPenaltyLogitsProcessor(sampling.repetition_penalty),
            TemperatureLogitsWarper(sampling.temperature),
            TopKLogitsWarper(sampling.top_k),
            TopPLogitsWarper(sampling.top_p),
            MinPLogitsWarper(sampling.min_p),
        ]
    )
    assert torch.equal(chat_scores(logits, generated, sampling), steps(generated[None], logits[None].clone())[0])


def test_the_folded_head_is_torchs_weight_norm():
    magnitude, direction = torch.rand(VOCABULARY, 1) + 0.5, torch.randn(VOCABULARY, SIZES.hidden_size)
    expected = torch._weight_norm(direction, magnitude, 0)
    torch.testing.assert_close(fold(magnitude, direction), expected, atol=1e-6, rtol=1e-6)


def test_a_head_stored_in_half_precision_is_folded_in_float32():
    magnitude = (torch.rand(64, 1) + 0.5).bfloat16()
    direction = torch.randn(64, SIZES.hidden_size).bfloat16()
    folded = fold(magnitude, direction)
    assert folded.dtype == torch.float32
    torch.testing.assert_close(folded, torch._weight_norm(direction.float(), magnitude.float(), 0))
