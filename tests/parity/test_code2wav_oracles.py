"""The flow model against stepaudio2's modules with the same random weights, at odd sizes."""

from collections.abc import Callable
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn

from antiphon.config.checkpoint import DiTConfig, FlowConfig, FlowEncoderConfig
from antiphon.models.code2wav.cfm import SolverCache
from antiphon.models.code2wav.conformer import EncoderCache
from antiphon.models.code2wav.dit import FullAttend
from antiphon.models.code2wav.flow import SILENCE_ID, Flow, FlowState, VoicePrompt

Oracle = Callable[[str], ModuleType]

CONFIG = FlowConfig(
    num_codec_ids=SILENCE_ID + 7,
    embedding_size=18,
    num_mel_bins=10,
    speaker_size=14,
    cfg_rate=0.7,
    encoder=FlowEncoderConfig(
        input_size=18,
        output_size=18,
        num_heads=3,
        linear_units=22,
        num_blocks=3,
        num_up_blocks=2,
        up_stride=2,
        lookahead=3,
    ),
    dit=DiTConfig(in_channels=40, out_channels=10, hidden_size=20, depth=3, num_heads=3, head_dim=8, mlp_ratio=4.0),
)
STEPS = 4


def make_reference(config: FlowConfig, stepaudio2: Oracle) -> nn.Module:
    encoder, dit = config.encoder, config.dit
    estimator = stepaudio2("cosyvoice2.flow.decoder_dit").DiT(
        in_channels=dit.in_channels,
        out_channels=dit.out_channels,
        mlp_ratio=dit.mlp_ratio,
        depth=dit.depth,
        num_heads=dit.num_heads,
        head_dim=dit.head_dim,
        hidden_size=dit.hidden_size,
    )
    decoder = stepaudio2("cosyvoice2.flow.flow_matching").CausalConditionalCFM(estimator, config.cfg_rate)
    # The reference's buffers have the real model's sizes written into the code.
    conv, frames = (dit.depth, 2, 2 * dit.hidden_size, 2), (dit.depth, 2, dit.num_heads, 1000, 2 * dit.head_dim)
    estimator.cnn_cache_buffer, estimator.att_cache_buffer = torch.zeros(conv), torch.zeros(frames)
    decoder.cnn_cache_buffer, decoder.att_cache_buffer = torch.zeros(16, *conv), torch.zeros(16, *frames)
    flow = stepaudio2("cosyvoice2.flow.flow").CausalMaskedDiffWithXvec(
        input_size=config.embedding_size,
        output_size=config.num_mel_bins,
        spk_embed_dim=config.speaker_size,
        vocab_size=config.num_codec_ids,
        encoder=stepaudio2("cosyvoice2.transformer.upsample_encoder_v2").UpsampleConformerEncoderV2(
            input_size=encoder.input_size,
            output_size=encoder.output_size,
            pre_lookahead_len=encoder.lookahead,
            num_blocks=encoder.num_blocks,
            num_up_blocks=encoder.num_up_blocks,
            up_stride=encoder.up_stride,
            up_scale_factor=encoder.up_stride,
            attention_heads=encoder.num_heads,
            linear_units=encoder.linear_units,
        ),
        decoder=decoder,
    )
    torch.manual_seed(3)
    for parameter in flow.parameters():  # also the gates, which a fresh model has at zero
        nn.init.normal_(parameter, std=0.25)
    flow.decoder.rand_noise = torch.randn(1, config.num_mel_bins, 1000)
    return flow.eval().requires_grad_(False)


@pytest.fixture(scope="module")
def reference(stepaudio2: Oracle) -> nn.Module:
    return make_reference(CONFIG, stepaudio2)


@pytest.fixture(scope="module")
def flow(reference: nn.Module) -> Flow:
    ours = Flow(CONFIG).eval().requires_grad_(False)
    ours.load_state_dict(reference.state_dict())
    return ours


def make_voice(num_codes: int) -> VoicePrompt:
    torch.manual_seed(num_codes)
    return VoicePrompt(
        torch.randint(0, CONFIG.num_codec_ids, (1, num_codes)),
        torch.randn(1, CONFIG.speaker_size),
        torch.randn(1, CONFIG.num_mel_bins, 2 * num_codes),
    )


def encoder_layout(cache: EncoderCache) -> Tensor:
    return torch.cat((cache.token_kv.repeat(1, 1, 1, 2, 1), cache.frame_kv))


def solver_layout(cache: SolverCache) -> Tensor:
    return torch.cat((cache.keys, cache.values), dim=-1)


def close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("num_tokens", [1, 2, 13])
def test_the_encoder_in_one_piece_is_the_references(reference: nn.Module, flow: Flow, num_tokens: int) -> None:
    x = torch.randn(1, num_tokens, CONFIG.embedding_size)
    theirs, _ = reference.encoder(x, torch.tensor([num_tokens]))
    ours, _ = flow.encoder(x, flow.encoder.empty_cache(), is_last=True)
    close(ours, theirs)


def test_the_encoder_in_chunks_is_the_references(reference: nn.Module, flow: Flow) -> None:
    cache, conv, attention = flow.encoder.empty_cache(), None, None
    for num_tokens in (9, 5, 17):
        x = torch.randn(1, num_tokens, CONFIG.embedding_size)
        theirs, conv, attention = reference.encoder.forward_chunk(x, False, conv, attention)
        ours, cache = flow.encoder(x, cache, is_last=False)
        close(ours, theirs)
        close(torch.cat((cache.lookahead, cache.upsample), dim=2), conv)
        close(encoder_layout(cache), attention)
    x = torch.randn(1, 1, CONFIG.embedding_size)
    theirs, _, _ = reference.encoder.forward_chunk(x, True, conv, attention)
    close(flow.encoder(x, cache, is_last=True)[0], theirs)


def test_the_estimator_masks_only_the_keys_of_short_rows(reference: nn.Module, flow: Flow) -> None:
    x, mu, cond = torch.randn(3, 2, CONFIG.num_mel_bins, 11)
    speaker, t = torch.randn(2, CONFIG.num_mel_bins), torch.tensor([0.1, 0.77])
    mask = torch.arange(11) < torch.tensor([[11], [6]])
    theirs = reference.decoder.estimator(x, mask[:, None], mu, t, speaker, cond)
    dit = flow.decoder.estimator
    ours, _ = dit(x, mu, speaker, cond, dit.modulation(t), FullAttend(mask), dit.empty_conv_past(2))
    close(ours, theirs)


@pytest.mark.parametrize("num_steps", [1, 5, 10])
def test_the_solver_in_one_piece_is_the_references(reference: nn.Module, flow: Flow, num_steps: int) -> None:
    mu, cond = torch.randn(2, 1, CONFIG.num_mel_bins, 15)
    speaker = torch.randn(1, CONFIG.num_mel_bins)
    theirs = reference.decoder(mu, torch.ones(1, 1, 15), speaker, cond, n_timesteps=num_steps)
    close(flow.decoder.solve(mu, speaker, cond, reference.decoder.rand_noise, num_steps), theirs)


def test_the_solver_in_chunks_is_the_references(reference: nn.Module, flow: Flow) -> None:
    cache, conv, attention = flow.decoder.empty_cache(STEPS), None, None
    speaker, noise = torch.randn(1, CONFIG.num_mel_bins), reference.decoder.rand_noise
    for num_frames in (7, 2, 1, 12):
        mu, cond = torch.randn(2, 1, CONFIG.num_mel_bins, num_frames)
        theirs, conv, attention = reference.decoder.forward_chunk(
            mu, speaker, cond, n_timesteps=STEPS, cnn_cache=conv, att_cache=attention
        )
        conv, attention = conv.clone(), attention.clone()  # views of the module's buffers
        ours, cache = flow.decoder.solve_chunk(mu, speaker, cond, noise, cache)
        close(ours, theirs)
        close(cache.conv, conv[:STEPS])
        close(solver_layout(cache), attention[:STEPS])


@pytest.mark.parametrize("num_codes", [1, 18])
def test_the_flow_offline_is_the_references(reference: nn.Module, flow: Flow, num_codes: int) -> None:
    voice, codes = make_voice(11), torch.randint(0, CONFIG.num_codec_ids, (1, num_codes))
    theirs = reference.inference(
        codes,
        torch.tensor([num_codes]),
        voice.codes,
        torch.tensor([voice.codes.shape[1]]),
        voice.mel.transpose(1, 2),
        torch.tensor([voice.mel.shape[2]]),
        voice.xvector,
        n_timesteps=STEPS,
    )
    close(flow.synthesise(codes, voice, reference.decoder.rand_noise, STEPS), theirs)


@pytest.mark.parametrize("num_prompt_codes", [13, 30, 50, 67])
def test_the_flow_in_chunks_is_the_references_through_every_trim(
    reference: nn.Module, flow: Flow, num_prompt_codes: int
) -> None:
    # The prompts lie below and above 100 frames, where the trimming slices meet in the doubled token-rate cache.
    voice, noise = make_voice(num_prompt_codes), reference.decoder.rand_noise
    ahead = torch.full((1, CONFIG.encoder.lookahead), SILENCE_ID)
    caches = reference.setup_cache(
        torch.cat((voice.codes, ahead), dim=1), voice.mel.transpose(1, 2), voice.xvector, n_timesteps=STEPS
    )
    caches = {name: cache.clone() for name, cache in caches.items()}
    state, speaker = flow.start(voice, noise, STEPS), flow.speaker(voice.xvector)
    compare_state(state, caches)
    for num_codes, is_last in ((28, False), (14, False), (28, False), (28, False), (8, False), (28, False), (5, True)):
        codes = torch.randint(0, CONFIG.num_codec_ids, (1, num_codes))
        theirs, caches = reference.inference_chunk(codes, voice.xvector, caches, is_last, STEPS)
        head = voice.mel.shape[2]
        caches = {
            name: trimmed(cache.clone(), head, {"conformer_att_cache": 3, "estimator_att_cache": 4}.get(name))
            for name, cache in caches.items()
        }
        ours, state = flow.chunk(codes, speaker, state, noise, is_last=is_last)
        close(ours, theirs)
        close(solver_layout(state.solver), caches["estimator_att_cache"][:STEPS])
        half = caches["conformer_att_cache"].shape[3] // 2
        token_layers = caches["conformer_att_cache"][: CONFIG.encoder.num_blocks, :, :, :half]
        close(state.encoder.token_kv, token_layers)
        close(state.encoder.frame_kv, caches["conformer_att_cache"][CONFIG.encoder.num_blocks :])


def trimmed(cache: Tensor, head: int, dim: int | None) -> Tensor:
    if dim is None or cache.shape[dim] <= head + 100:
        return cache
    return torch.cat((cache.narrow(dim, 0, head), cache.narrow(dim, cache.shape[dim] - 100, 100)), dim=dim)


def compare_state(state: FlowState, caches: dict[str, Tensor]) -> None:
    close(encoder_layout(state.encoder), caches["conformer_att_cache"])
    close(torch.cat((state.encoder.lookahead, state.encoder.upsample), dim=2), caches["conformer_cnn_cache"])
    close(state.solver.conv, caches["estimator_cnn_cache"][:STEPS])
    close(solver_layout(state.solver), caches["estimator_att_cache"][:STEPS])
