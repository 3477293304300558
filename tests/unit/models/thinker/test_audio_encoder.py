"""Lengths, masks and the stream cache of the audio encoder; pooling of its projection."""

import pytest
import torch

from antiphon.config.checkpoint import AudioConfig
from antiphon.core.errors import MediaError
from antiphon.models.thinker.audio_encoder import AudioEncoder, AudioStreamState, conv_frames
from antiphon.models.thinker.audio_projection import AudioProjection


def encoder(max_positions: int = 40) -> AudioEncoder:
    torch.manual_seed(3)
    config = AudioConfig(
        hidden_size=12,
        intermediate_size=16,
        num_layers=2,
        num_heads=4,
        num_mel_bins=6,
        max_positions=max_positions,
        pool_step=5,
        chunk_s=0.2,
    )
    return AudioEncoder(config).eval()


@pytest.mark.parametrize(("mel", "frames"), [(1, 1), (2, 1), (100, 50), (102, 51), (104, 52), (3000, 1500)])
def test_the_convolutions_halve_the_frames(mel: int, frames: int) -> None:
    assert conv_frames(mel) == frames
    if mel < 200:
        assert encoder().convolve(torch.zeros(1, 6, mel)).shape == (1, frames, 12)


def test_the_block_mask_shows_a_frame_its_block_and_the_past() -> None:
    mask = encoder()._offline_mask([50], 25, True, torch.device("cpu"))
    assert mask is not None
    assert mask.sum(-1).tolist() == [10] * 10 + [20] * 10 + [25] * 5


def test_padding_stays_visible_up_to_the_length_in_mel_frames() -> None:
    mask = encoder()._offline_mask([12, 50], 25, False, torch.device("cpu"))
    assert mask is not None
    assert mask.sum(-1).flatten().tolist() == [12, 25]  # twelve mel frames are six frames, the other six are padding


def test_clips_of_one_length_need_no_mask_without_blocks() -> None:
    assert encoder()._offline_mask([50, 50], 25, False, torch.device("cpu")) is None


def test_a_clip_longer_than_the_positions_is_refused() -> None:
    with pytest.raises(MediaError, match="cut it into pieces"):
        encoder()([torch.zeros(6, 81)], block_mask=True)


def test_a_stream_keeps_positions_and_starts_afresh_when_they_run_out() -> None:
    model, state = encoder(max_positions=40), AudioStreamState(2)
    lengths = []
    for _ in range(4):
        # Twelve frames count before two are trimmed: 20 + 12 fit below 40, 30 + 12 do not.
        model.step(torch.randn(6, 24), state, trim_front=1, trim_end=1)
        lengths.append(len(state))
    assert lengths == [10, 20, 30, 10]


def test_a_fresh_state_and_a_reset_one_give_the_same() -> None:
    model, state, mel = encoder(), AudioStreamState(2), torch.randn(6, 20)
    first = model.step(mel, state, trim_front=0, trim_end=0)
    state.reset()
    torch.testing.assert_close(model.step(mel, state, trim_front=0, trim_end=0), first)


@pytest.mark.parametrize(("frames", "rows"), [(4, 0), (5, 1), (27, 5)])
def test_pooling_drops_an_incomplete_step(frames: int, rows: int) -> None:
    projection = AudioProjection(12, 8, 5)
    x = torch.randn(2, frames, 12)
    pooled = projection(x)
    assert pooled.shape == (2, rows, 8)
    if rows:
        torch.testing.assert_close(pooled[:, 0], projection.project(x)[:, :5].mean(1))
