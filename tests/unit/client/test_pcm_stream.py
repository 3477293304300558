import pytest

from antiphon.client import AudioFormat, duplex_unit_boundary_ms, has_residual_model_unit
from antiphon.client.pcm_stream import InputCursor, plan_chunks
from antiphon.core.errors import MediaError

PCM16 = AudioFormat("pcm16", 16_000)


def test_chunks_carry_everything_and_are_due_when_their_last_sample_is():
    pcm = bytes(range(250)) * 128 * 2
    chunks = list(plan_chunks(pcm, PCM16, 300))
    assert b"".join(chunk.pcm for chunk in chunks) == pcm
    assert [round(chunk.due_s, 3) for chunk in chunks] == [0.3, 0.6, 0.9, 1.2, 1.5, 1.8, 2.0]


def test_the_picture_of_a_second_rides_on_the_chunk_that_completes_it():
    chunks = list(plan_chunks(bytes(2 * 36_800), PCM16, 200, ["a", "b", "c"], ["x", None, "x"]))
    assert [(place, chunk.frames) for place, chunk in enumerate(chunks) if chunk.frames] == [
        (4, ("a", "x")),
        (9, ("b",)),
    ]


def test_the_last_picture_is_shown_again_where_there_are_too_few():
    chunks = plan_chunks(bytes(2 * 48_000), PCM16, 500, ["a"])
    assert [chunk.frames for chunk in chunks if chunk.frames] == [("a",)] * 3


def test_appends_count_the_sound_before_them():
    cursor = InputCursor(AudioFormat("pcm16", 24_000))
    cursor.append(bytes(4800))
    event = cursor.append(bytes(2400))
    assert (event["duration_ms"], event["audio_end_ms"], event["sample_rate_hz"]) == (50, 150, 24_000)


def test_half_a_sample_is_refused():
    with pytest.raises(MediaError, match="whole samples"):
        InputCursor(PCM16).append(b"abc")


def test_units_end_at_whole_seconds():
    assert [duplex_unit_boundary_ms(index) for index in (0, 3)] == [1000, 4000]
    assert not has_residual_model_unit(bytes(32_000), chunk_period_ms=1000)
    assert has_residual_model_unit(bytes(32_002), chunk_period_ms=1000)
