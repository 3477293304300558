"""Frame counts, floors and books of the log-mel features."""

import numpy as np
import pytest

from antiphon.audio.mel import (
    FIRST_UNIT_SAMPLES,
    REDUNDANCY_FRAMES,
    Floor,
    StreamingMel,
    UnitSamples,
    log_mel,
    offline_mels,
    pad_first_unit,
)


def noise(num_samples: int, seed: int = 0) -> np.ndarray:
    return (0.1 * np.random.default_rng(seed).standard_normal(num_samples)).astype(np.float32)


@pytest.mark.parametrize(("num_samples", "num_frames"), [(159, 0), (160, 1), (16_000, 100), (16_099, 100)])
def test_a_frame_for_every_whole_hop(num_samples: int, num_frames: int) -> None:
    mel = log_mel(noise(num_samples), floor=Floor.FIXED)
    assert mel.shape == (80, num_frames)
    assert mel.dtype == np.float32


def test_silence_lies_at_the_fixed_floor() -> None:
    assert np.all(log_mel(np.zeros(1_600, np.float32), floor=Floor.FIXED) == -1.5)


def test_the_dynamic_floor_is_eight_below_the_loudest_value_of_the_same_input() -> None:
    loud_then_silent = np.concatenate((noise(1_600), np.zeros(3_200, np.float32)))
    fixed, dynamic = (log_mel(loud_then_silent, floor=floor) for floor in (Floor.FIXED, Floor.DYNAMIC))
    assert fixed.min() == -1.5
    assert dynamic.min() == pytest.approx(dynamic.max() - 2.0, abs=1e-6)


def test_floors_do_not_remember_each_other() -> None:
    samples = noise(3_000)
    before = log_mel(samples, floor=Floor.DYNAMIC)
    log_mel(samples, floor=Floor.FIXED)
    assert np.array_equal(log_mel(samples, floor=Floor.DYNAMIC), before)


@pytest.mark.parametrize("num_samples", [1, 161, 16_000, 479_999, 480_000, 479_700])
def test_short_padding_gives_what_thirty_seconds_of_padding_give(num_samples: int) -> None:
    samples = noise(num_samples)
    padded = np.pad(samples, (0, 480_000 - num_samples))
    num_frames = -(-num_samples // 160)
    expected = log_mel(padded, floor=Floor.DYNAMIC)[:, :num_frames]
    np.testing.assert_allclose(offline_mels(samples)[0], expected, atol=1e-6)


def test_a_long_clip_is_cut_into_pieces_with_floors_of_their_own() -> None:
    samples = np.concatenate((noise(480_000), 1e-3 * noise(8_100)))
    pieces = offline_mels(samples)
    assert [piece.shape[1] for piece in pieces] == [3000, 51]
    np.testing.assert_array_equal(pieces[1], offline_mels(samples[480_000:])[0])


def test_an_empty_clip_has_no_features() -> None:
    assert offline_mels(np.zeros(0, np.float32)) == []


def test_units_keep_a_carry_of_eighty_samples() -> None:
    units, samples = UnitSamples(), noise(48_000)
    lengths, waiting = [], []
    for start in range(0, 48_000, 16_000):
        units.append(samples[start : start + 16_000])
        unit = units.take()
        assert unit is not None
        lengths.append(len(unit))
        waiting.append(len(units))
    assert lengths == [16_480, 16_000, 16_000]
    assert waiting == [80, 80, 80]


def test_the_first_unit_is_padded_in_front_and_later_ones_wait() -> None:
    units = UnitSamples()
    units.append(np.ones(10_000, np.float32))
    first = units.take()
    assert first is not None
    assert np.count_nonzero(first == 0) == FIRST_UNIT_SAMPLES - 10_000
    units.append(np.ones(15_919, np.float32))
    assert units.take() is None
    assert (len(units), units.required) == (15_999, 16_000)
    units.clear()
    assert (len(units), units.required) == (0, 16_480)


def test_a_long_first_unit_is_not_padded() -> None:
    assert len(pad_first_unit(noise(20_000))) == 20_000
    assert len(pad_first_unit(noise(1))) == FIRST_UNIT_SAMPLES


def test_duplex_chunks_have_context_that_the_encoder_trims() -> None:
    stream, samples = StreamingMel(redundancy_frames=REDUNDANCY_FRAMES), noise(32_480)
    first, second = stream.push(samples[:16_480]), stream.push(samples[16_480:])
    assert (first.mel.shape, first.trim_front, first.trim_end) == ((80, 102), 0, 1)
    assert (second.mel.shape, second.trim_front, second.trim_end) == ((80, 104), 1, 1)
    assert (first.core_start, first.core_end, second.core_end) == (0, 100, 200)


def test_a_stream_emits_what_one_pass_over_its_buffer_gives() -> None:
    stream, samples = StreamingMel(redundancy_frames=REDUNDANCY_FRAMES), noise(48_480)
    ends = (16_480, 32_480, 48_480)
    chunks = [stream.push(samples[start:end]) for start, end in zip((0, *ends), ends, strict=False)]
    cores = [chunk.mel[:, chunk.prefix_frames : chunk.mel.shape[1] - chunk.suffix_frames] for chunk in chunks]
    one_pass = log_mel(samples, floor=Floor.FIXED)[:, :300]
    np.testing.assert_allclose(np.concatenate(cores, axis=1), one_pass, atol=1e-6)


def test_the_floor_turns_dynamic_at_five_seconds_of_buffer() -> None:
    stream = StreamingMel(redundancy_frames=0)
    assert stream.push(noise(79_999)).floor is Floor.FIXED
    assert stream.push(noise(1)).floor is Floor.DYNAMIC


def test_the_last_simplex_chunk_emits_the_rest() -> None:
    stream = StreamingMel(redundancy_frames=0)
    for num_samples in (FIRST_UNIT_SAMPLES, 16_000, 16_000):
        assert stream.push(noise(num_samples)).mel.shape[1] == 100
    last = stream.push(noise(8_000), is_last=True)
    assert (last.mel.shape[1], last.core_end, last.suffix_frames) == (53, 353, 0)


def test_a_chunk_without_enough_stable_frames_is_empty_and_moves_nothing() -> None:
    stream = StreamingMel(redundancy_frames=REDUNDANCY_FRAMES)
    early = stream.push(noise(16_000))
    assert (early.mel.shape[1], early.core_start, early.core_end) == (0, 0, 0)
    assert stream.push(noise(480)).core_end == 100


def test_a_full_buffer_slides_by_ten_seconds_and_frames_keep_their_numbers() -> None:
    stream = StreamingMel(redundancy_frames=REDUNDANCY_FRAMES)
    chunk = stream.push(noise(16_480))
    for _ in range(29):
        chunk = stream.push(noise(16_000))
    assert (chunk.buffer_start_frame, chunk.buffer_samples) == (1000, 320_480)
    assert (chunk.core_start, chunk.core_end) == (2900, 3000)
    stream.reset()
    assert stream.push(noise(16_480)).core_start == 0
