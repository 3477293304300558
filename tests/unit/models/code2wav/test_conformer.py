import pytest
import torch

from antiphon.models.code2wav.code2wav import Code2Wav
from antiphon.models.code2wav.conformer import EncoderCache


def numbered_cache(num_tokens: int) -> EncoderCache:
    """Entries that carry their own index."""
    tokens = torch.arange(float(num_tokens)).view(1, 1, 1, -1, 1)
    frames = torch.arange(2.0 * num_tokens).view(1, 1, 1, -1, 1)
    return EncoderCache(torch.zeros(1), torch.zeros(1), tokens, frames)


@pytest.mark.parametrize(("num_head", "num_tokens"), [(120, 170), (120, 125), (50, 100), (50, 80), (20, 65)])
def test_trimming_is_two_slices_of_the_doubled_array_of_which_the_first_half_is_read(
    num_head: int, num_tokens: int
) -> None:
    cache = numbered_cache(num_tokens)
    doubled = torch.cat((cache.token_kv.flatten(), cache.token_kv.flatten()))
    sliced = torch.cat((doubled[:num_head], doubled[-100:]))
    trimmed = cache.trimmed(num_head, 100)
    assert trimmed.token_kv.flatten().tolist() == sliced[: len(sliced) // 2].tolist()
    assert len(trimmed) == num_head + 100


def test_with_a_long_prompt_token_rate_layers_never_see_the_newest_entries() -> None:
    trimmed = numbered_cache(170).trimmed(120, 100)
    assert trimmed.token_kv.flatten().tolist() == list(range(110))
    assert trimmed.frame_kv.flatten().tolist() == [*range(120), *range(240, 340)]


def test_a_chunk_leaves_the_given_cache_as_it_was(code2wav: Code2Wav) -> None:
    encoder = code2wav.flow.encoder
    _, cache = encoder(torch.randn(1, 9, 8), encoder.empty_cache(), is_last=False)
    before = cache.clone()
    encoder(torch.randn(1, 7, 8), cache, is_last=False)
    assert torch.equal(cache.token_kv, before.token_kv)
    assert torch.equal(cache.lookahead, before.lookahead)
    assert cache.frame_kv.shape[3] == 12


def test_the_last_three_tokens_are_voiced_only_at_the_end(code2wav: Code2Wav) -> None:
    encoder = code2wav.flow.encoder
    x = torch.randn(2, 10, 8)
    assert encoder(x, encoder.empty_cache(2), is_last=False)[0].shape == (2, 14, 8)
    assert encoder(x, encoder.empty_cache(2), is_last=True)[0].shape == (2, 20, 8)
