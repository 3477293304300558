"""Placeholder strings, their lengths and where their rows lie."""

import pytest

from antiphon.prompt.placeholders import audio_placeholder, audio_runs, find_spans, image_placeholder, num_audio_rows
from antiphon.prompt.tokenizer import Tokenizer


def test_rows_of_slices_are_separated_by_newlines_but_the_picture_is_not() -> None:
    assert image_placeholder((2, 2), 1) == (
        "<image><unk></image><slice><unk></slice><slice><unk></slice>\n<slice><unk></slice><slice><unk></slice>"
    )


def test_an_image_can_carry_its_number() -> None:
    assert image_placeholder(None, 2, 3) == "<image_id>3</image_id><image><unk><unk></image>"


@pytest.mark.parametrize(
    ("num_frames", "rows"), [(100, 10), (102, 10), (104, 10), (3000, 300), (10, 1), (8, 0), (0, 0)]
)
def test_rows_follow_from_frames(num_frames: int, rows: int) -> None:
    assert num_audio_rows(num_frames, 5) == rows


@pytest.mark.parametrize(
    ("num_samples", "chunks"), [(801, []), (1440, [1]), (16001, [10]), (40000, [10, 10, 5]), (480000, [10] * 30)]
)
def test_a_chunked_clip_has_one_run_a_second(num_samples: int, chunks: list[int]) -> None:
    assert audio_runs(num_samples, pool_step=5, chunked=True) == chunks
    assert audio_runs(num_samples, pool_step=5, chunked=False) == [sum(chunks)]


def test_spans_cover_the_unk_rows_of_every_run(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode(image_placeholder((1, 2), 3, 0) + audio_placeholder([2, 0]))
    spans = find_spans(ids, tokenizer.special)
    unk = tokenizer.special.unk
    assert [end - start for start, end in spans] == [3, 3, 3, 2, 0]
    assert all(set(ids[start:end]) <= {unk} for start, end in spans)
    assert sum(end - start for start, end in spans) == ids.count(unk)
