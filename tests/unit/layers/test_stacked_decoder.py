import torch
from torch import Tensor

from antiphon.config.checkpoint import DecoderConfig
from antiphon.layers.decoder import Decoder
from antiphon.layers.kv_cache import CausalAttend, KVCache
from antiphon.layers.paged_attention import PagedAttend
from antiphon.layers.paged_batch import PagedBatch
from antiphon.layers.parallel import ParallelGroup
from antiphon.layers.stacked_decoder import StackedDecoder

CPU = torch.device("cpu")


def make_decoder(*, has_qk_norm: bool = True) -> Decoder:
    torch.manual_seed(0)
    config = DecoderConfig(
        hidden_size=16,
        intermediate_size=24,
        num_layers=2,
        num_heads=4,
        num_kv_heads=2,
        head_dim=8,
        rms_norm_eps=1e-6,
        rope_theta=10_000.0,
        max_positions=64,
        has_qk_norm=has_qk_norm,
    )
    return Decoder(config).requires_grad_(False)


def run(stacked: StackedDecoder, embeds: Tensor) -> Tensor:
    length, config = len(embeds), stacked.config
    places = torch.arange(length)
    cos, sin = stacked.rope.cos_sin(places)
    batch = PagedBatch(
        kv_index=places,
        cos=cos,
        sin=sin,
        query_start=torch.tensor([0, length], dtype=torch.int32),
        context_lens=torch.tensor([length], dtype=torch.int32),
        tables=torch.arange(2, dtype=torch.int32)[None],
        num_decodes=0,
        max_query_len=length,
    )
    pages = torch.zeros(config.num_layers, 2, 2, 8, stacked.num_kv_heads, config.head_dim)
    return stacked.forward(embeds.clone(), PagedAttend(pages, batch, eps=config.rms_norm_eps, use_kernels=False))


def test_it_computes_what_the_decoder_computes_and_leaves_it_working() -> None:
    for has_qk_norm in (True, False):
        decoder, embeds = make_decoder(has_qk_norm=has_qk_norm), torch.randn(9, 16)
        wanted = decoder(embeds, torch.arange(9), CausalAttend(KVCache(2)))
        stacked = StackedDecoder(decoder, device=CPU)
        torch.testing.assert_close(run(stacked, embeds), wanted, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(decoder(embeds, torch.arange(9), CausalAttend(KVCache(2))), wanted)


def test_weights_are_not_held_twice() -> None:
    decoder = make_decoder()
    stacked = StackedDecoder(decoder, device=CPU)
    layer = stacked.layers[0]
    places = {parameter.untyped_storage().data_ptr() for parameter in decoder.layers[0].parameters()}
    kept = (
        layer.input_norm,
        layer.qkv,
        layer.q_norm,
        layer.k_norm,
        layer.o,
        layer.post_norm,
        layer.gate_up,
        layer.down,
    )
    assert places == {weight.untyped_storage().data_ptr() for weight in kept if weight is not None}


def test_of_two_ranks_each_keeps_half_and_frees_the_rest() -> None:
    decoder = make_decoder()
    whole = decoder.layers[0].self_attn.k_proj.weight.clone()
    stacked = StackedDecoder(decoder, device=CPU, group=ParallelGroup(rank=1, size=2))
    assert stacked.layers[0].qkv.shape == (2 * 8 + 2 * 8, 16)
    assert torch.equal(stacked.layers[0].qkv[16:24], whole[8:])
    assert stacked.layers[0].down.shape == (16, 12)
    assert decoder.layers[0].self_attn.q_proj.weight.numel() == 0
