import torch
from torch.nn.utils.parametrizations import weight_norm

from antiphon.models.weight_norm import (
    HIFT_NORMED,
    TALKER_NORMED,
    disk_shapes,
    fold,
    modern_names,
    on_disk,
    plain_shapes,
)


def test_folding_gives_the_weight_of_the_parametrised_module() -> None:
    for module in (torch.nn.Conv1d(3, 5, 7), torch.nn.ConvTranspose1d(3, 5, 4), torch.nn.Linear(6, 4)):
        normed = weight_norm(module)
        state = normed.state_dict()
        folded = fold(state["parametrizations.weight.original0"], state["parametrizations.weight.original1"])
        torch.testing.assert_close(folded, normed.weight.detach(), rtol=1e-6, atol=1e-7)


def test_half_precision_pairs_are_folded_in_float32() -> None:
    generator = torch.Generator().manual_seed(0)
    magnitude, direction = (torch.rand(shape, generator=generator).bfloat16() for shape in ((4, 1), (4, 300)))
    folded = fold(magnitude, direction)
    assert folded.dtype == torch.float32
    torch.testing.assert_close(folded, fold(magnitude.double().float(), direction.double().float()), rtol=0, atol=0)


def test_only_the_convolutions_of_the_rule_are_stored_as_pairs() -> None:
    assert len(on_disk("resblocks.3.convs1.2.weight", HIFT_NORMED)) == 2
    assert len(on_disk("source_resblocks.0.convs2.0.weight", HIFT_NORMED)) == 2
    assert len(on_disk("head_code.0.weight", TALKER_NORMED)) == 2
    for plain in (
        "source_downs.0.weight",
        "conv_pre.bias",
        "m_source.l_linear.weight",
        "resblocks.0.activations1.0.alpha",
    ):
        assert on_disk(plain, HIFT_NORMED) == (plain,)


def test_stored_and_plain_shapes_are_inverse() -> None:
    plain = {"conv_pre.weight": (8, 4, 7), "conv_pre.bias": (8,), "source_downs.0.weight": (8, 2, 1)}
    stored = disk_shapes(plain, HIFT_NORMED)
    assert stored["conv_pre.parametrizations.weight.original0"] == (8, 1, 1)
    assert plain_shapes(stored) == plain


def test_the_older_spelling_of_a_pair_is_understood() -> None:
    assert modern_names({"ups.0.weight_g": 1, "ups.0.weight_v": 2, "ups.0.bias": 3}) == {
        "ups.0.parametrizations.weight.original0": 1,
        "ups.0.parametrizations.weight.original1": 2,
        "ups.0.bias": 3,
    }
