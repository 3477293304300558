"""The products of a few rows against the plain path, the kernels interpreted where there is no GPU."""

import pytest
import torch
from torch.nn.functional import linear, rms_norm, silu

from antiphon.config.checkpoint import DecoderConfig
from antiphon.layers.decoder import Decoder
from antiphon.layers.few_rows import load_few_rows
from antiphon.layers.stacked_decoder import StackedDecoder

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
EPS = 1e-6


@pytest.fixture(scope="module")
def products():
    made = load_few_rows(40, device=DEVICE)
    if made is None:
        pytest.skip("Triton is not installed")
    return made


def values(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator).to(DEVICE)


@pytest.mark.parametrize("num_rows", [1, 5, 16])
def test_a_norm_and_its_product_are_one(products, num_rows):
    x, norm, weight = values(num_rows, 300), values(300, seed=1), values(40, 300, seed=2)
    expected = linear(rms_norm(x, (300,), norm, EPS), weight)
    torch.testing.assert_close(products.norm_product(x, norm, weight, EPS), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("num_rows", [1, 16])
def test_the_first_half_of_a_gated_product_opens_the_second(products, num_rows):
    x, norm, weight = values(num_rows, 48), values(48, seed=1), values(2 * 20, 48, seed=2)
    gate, up = linear(rms_norm(x, (48,), norm, EPS), weight).chunk(2, dim=-1)
    found = products.norm_gated_product(x, norm, weight, EPS)
    torch.testing.assert_close(found, silu(gate) * up, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("size", [40, 1100])  # whole, and in parts that must meet
def test_a_product_is_added_in_place_again_and_again(products, size):
    x, inner, weight = values(3, 40), values(3, size, seed=1), values(40, size, seed=2) / size**0.5
    expected = x + 2 * linear(inner, weight)
    assert products.add_product(x, inner, weight) is x
    products.add_product(x, inner, weight)
    torch.testing.assert_close(x, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(DEVICE.type == "cpu", reason="Triton's interpreter cannot multiply bfloat16")
def test_rounding_is_that_of_the_plain_path(products):
    x, norm, weight = (part.bfloat16() for part in (values(2, 48), values(48, seed=1), values(2 * 20, 48, seed=2)))
    gate, up = linear(rms_norm(x, (48,), norm, EPS), weight).chunk(2, dim=-1)
    torch.testing.assert_close(products.norm_gated_product(x, norm, weight, EPS), silu(gate) * up)


def test_a_decoder_computes_the_same_with_and_without(products):
    config = DecoderConfig(
        hidden_size=40,
        intermediate_size=56,
        num_layers=2,
        num_heads=4,
        num_kv_heads=2,
        head_dim=8,
        rms_norm_eps=EPS,
        rope_theta=1e4,
        max_positions=64,
        has_qk_norm=False,
    )
    torch.manual_seed(3)
    decoder = StackedDecoder(Decoder(config).requires_grad_(False).to(DEVICE), device=DEVICE)

    def attend(layer, qkv, q_norm, k_norm):
        return qkv[:, :32] * (layer + 1)

    plain = decoder.forward(values(3, 40), attend)
    decoder.few_rows = products
    torch.testing.assert_close(decoder.forward(values(3, 40), attend), plain, rtol=1e-4, atol=1e-4)
