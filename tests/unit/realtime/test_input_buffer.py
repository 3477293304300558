import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.realtime.input_buffer import InputBuffer
from antiphon.realtime.limits import UNIT_SAMPLES


def push(buffer, samples, *, frames=(), force_listen=False, is_speech=False):
    buffer.push(samples, frames=frames, force_listen=force_listen, is_speech=is_speech)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 40_000), max_size=12))
def test_units_are_the_input_cut_into_seconds_whatever_the_packets(sizes):
    stream = np.arange(sum(sizes), dtype=np.float32)
    buffer, seconds, start = InputBuffer(), [], 0
    for size in sizes:
        push(buffer, stream[start : start + size])
        start += size
        while (second := buffer.take()) is not None:
            seconds.append(second.samples)
    whole = len(stream) // UNIT_SAMPLES
    assert len(seconds) == whole
    assert buffer.num_samples == len(stream) - whole * UNIT_SAMPLES
    if whole:
        np.testing.assert_array_equal(np.concatenate(seconds), stream[: whole * UNIT_SAMPLES])


def test_a_rest_is_padded_on_demand_only():
    buffer = InputBuffer()
    push(buffer, np.ones(10, np.float32))
    assert buffer.take() is None
    second = buffer.take(pad=True)
    assert second is not None
    assert second.samples.sum() == 10
    assert len(second.samples) == UNIT_SAMPLES
    assert buffer.take(pad=True) is None


def test_frame_groups_ride_units_first_in_first_out():
    buffer = InputBuffer()
    for name in (b"a", b"b", b"c"):
        push(buffer, np.zeros(UNIT_SAMPLES // 2, np.float32), frames=(name,))
    push(buffer, np.zeros(UNIT_SAMPLES, np.float32))
    units = [buffer.take(), buffer.take()]
    assert [unit.frames for unit in units if unit is not None] == [(b"a",), (b"b",)]


@pytest.mark.parametrize(("start", "expected"), [(0, [True, False]), (8000, [True, True]), (16_000, [False, True])])
def test_force_listen_covers_the_units_of_its_samples(start, expected):
    buffer = InputBuffer()
    push(buffer, np.zeros(start, np.float32))
    push(buffer, np.zeros(UNIT_SAMPLES, np.float32), force_listen=True)
    push(buffer, np.zeros(UNIT_SAMPLES, np.float32))
    found = [unit.force_listen for unit in (buffer.take(), buffer.take()) if unit is not None]
    assert found == expected


def test_clear_drops_everything_but_the_clock():
    buffer = InputBuffer()
    push(buffer, np.zeros(500, np.float32), frames=(b"a",))
    buffer.clear()
    assert (buffer.num_samples, buffer.num_bytes, buffer.position) == (0, 0, 500)
