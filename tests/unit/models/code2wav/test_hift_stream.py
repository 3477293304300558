import numpy as np
import pytest
import torch

from antiphon.core.errors import CapacityError
from antiphon.models.code2wav.code2wav import Code2Wav
from antiphon.models.code2wav.hift_source import NoSourceNoise
from antiphon.models.code2wav.hift_stream import cross_fade, empty_state, vocode_chunk

NO_NOISE = NoSourceNoise()


def test_the_first_chunk_holds_160_ms_back_and_the_last_returns_them(code2wav: Code2Wav) -> None:
    hift, state = code2wav.hift, empty_state(code2wav.hift)
    lengths = []
    for num_frames, is_last in ((50, False), (50, False), (6, True)):
        samples, state = vocode_chunk(hift, torch.randn(1, 6, num_frames), state, NO_NOISE, is_last=is_last)
        lengths.append(samples.shape[1])
    assert lengths == [20_160, 24_000, 6_720]


def test_the_held_samples_are_faded_with_a_symmetric_hamming_window() -> None:
    new, old = torch.randn(1, 5_000), torch.randn(1, 3_840)
    window = np.hamming(7_680)
    faded = cross_fade(new, old)[0].numpy()
    expected = new[0, :3_840].numpy() * window[:3_840] + old[0].numpy() * window[3_840:]
    np.testing.assert_allclose(faded[:3_840], expected, atol=1e-6)
    np.testing.assert_array_equal(faded[3_840:], new[0, 3_840:].numpy())


def test_the_overlap_is_louder_by_the_windows_sum() -> None:
    ones = torch.ones(1, 3_840)
    assert float(cross_fade(ones, ones).mean()) == pytest.approx(1.08, abs=1e-3)


def test_the_excitation_of_the_overlap_is_the_chunk_befores(code2wav: Code2Wav) -> None:
    hift, mel = code2wav.hift, torch.randn(1, 6, 40)
    _, first = vocode_chunk(hift, mel[:, :, :20], empty_state(hift), NO_NOISE, is_last=False)
    _, second = vocode_chunk(hift, mel[:, :, 20:28], first, NO_NOISE, is_last=False)
    both = torch.cat((first.mel, mel[:, :, 20:28]), dim=2)
    _, source = hift(both, None, first.source)
    assert torch.equal(source[:, :, :3_840], first.source)
    torch.testing.assert_close(second.source, source[:, :, -3_840:])


def test_a_state_shares_nothing_with_later_chunks(code2wav: Code2Wav) -> None:
    hift = code2wav.hift
    mel = torch.randn(1, 6, 20)
    _, state = vocode_chunk(hift, mel, empty_state(hift), NO_NOISE, is_last=False)
    before = state.clone()
    mel.zero_()
    vocode_chunk(hift, torch.randn(1, 6, 20), state, NO_NOISE, is_last=False)
    assert torch.equal(state.mel, before.mel)
    assert torch.equal(state.speech, before.speech)


def test_a_first_chunk_too_short_to_be_continued_is_refused(code2wav: Code2Wav) -> None:
    state = empty_state(code2wav.hift)
    with pytest.raises(CapacityError, match="at least 8"):
        vocode_chunk(code2wav.hift, torch.randn(1, 6, 7), state, NO_NOISE, is_last=False)
    samples, _ = vocode_chunk(code2wav.hift, torch.randn(1, 6, 7), state, NO_NOISE, is_last=True)
    assert samples.shape == (1, 3_360)
