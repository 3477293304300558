"""Matrix precision is switched for a while only."""

import pytest
import torch

from antiphon.engine.float32_precision import float32_precision


def settings() -> tuple[str, str]:
    return torch.backends.cuda.matmul.fp32_precision, torch.backends.cudnn.conv.fp32_precision


@pytest.mark.parametrize(("tf32", "word"), [(True, "tf32"), (False, "ieee")])
def test_both_switches_are_set_inside(tf32: bool, word: str) -> None:
    before = settings()
    with float32_precision(tf32=tf32):
        assert settings() == (word, word)
    assert settings() == before


def test_an_error_inside_restores_them_too() -> None:
    before = settings()
    with pytest.raises(KeyError), float32_precision(tf32=True):
        raise KeyError
    assert settings() == before
