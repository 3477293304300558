"""The scatter rule of media rows."""

import pytest
import torch

from antiphon.core.errors import PromptError
from antiphon.pipeline.eager.merge import merge_images, merge_media


def rows(value: float, count: int) -> torch.Tensor:
    return torch.full((count, 2), value)


def test_audio_rows_are_joined_and_cut_along_the_spans() -> None:
    merged = merge_media(torch.zeros(8, 2), [(1, 4), (5, 7)], [rows(1, 1), rows(2, 4)])
    assert merged[:, 0].tolist() == [0, 1, 2, 2, 0, 2, 2, 0]


def test_audio_rows_left_over_are_dropped() -> None:
    merged = merge_media(torch.zeros(4, 2), [(0, 2)], [rows(1, 1), rows(2, 5)])
    assert merged[:, 0].tolist() == [1, 2, 0, 0]


def test_too_few_rows_are_an_error() -> None:
    with pytest.raises(PromptError, match="3 media placeholders but its media give 2 rows"):
        merge_media(torch.zeros(4, 2), [(0, 3)], [rows(1, 2)])


def test_a_prompt_without_spans_is_left_alone() -> None:
    embeds = torch.ones(3, 2)
    assert merge_media(embeds, [], [rows(5, 2)]) is embeds


def test_the_input_is_not_changed() -> None:
    embeds = torch.zeros(2, 2)
    merge_media(embeds, [(0, 1)], [rows(1, 1)])
    assert not embeds.any()


def test_the_kth_block_goes_to_the_kth_image_span() -> None:
    merged = merge_images(torch.zeros(6, 2), [(0, 2), (3, 5)], [rows(1, 2), rows(2, 2)])
    assert merged[:, 0].tolist() == [1, 1, 0, 2, 2, 0]


@pytest.mark.parametrize("blocks", [[], [rows(1, 2)], [rows(1, 2), rows(2, 3)], [rows(1, 2)] * 3])
def test_image_blocks_that_do_not_fit_their_spans_are_an_error(blocks: list[torch.Tensor]) -> None:
    with pytest.raises(PromptError, match="image spans"):
        merge_images(torch.zeros(6, 2), [(0, 2), (3, 5)], blocks)


def test_rows_take_the_dtype_of_the_prompt() -> None:
    merged = merge_media(torch.zeros(2, 2, dtype=torch.bfloat16), [(0, 1)], [rows(1, 1)])
    assert merged.dtype is torch.bfloat16
