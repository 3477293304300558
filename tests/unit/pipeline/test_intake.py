import numpy as np
import pytest

from antiphon.audio.mel import offline_mels
from antiphon.core.errors import MediaError
from antiphon.pipeline.intake import media_digest, prepare_inputs
from antiphon.prompt.chat_prompt import ChatPrompt


def strip(value: float = 0.0) -> np.ndarray:
    return np.full((3, 14, 28), value, np.float32)


def clip(value: float = 0.1, count: int = 16_000) -> np.ndarray:
    return np.full(count, value, np.float32)


def prompt(**fields: object) -> ChatPrompt:
    return ChatPrompt(**{"ids": list(range(40)), **fields})  # type: ignore[arg-type]


def test_text_alone_has_no_media() -> None:
    inputs = prepare_inputs(prompt(), num_mel_bins=80)
    assert (inputs.ids, inputs.images, inputs.audio) == (tuple(range(40)), (), None)


def test_each_picture_knows_the_rows_it_replaces() -> None:
    built = prompt(image_bounds=[(2, 6), (8, 12)], strips=[strip(), strip(1.0)], patch_grids=[(1, 2), (2, 1)])
    first, second = prepare_inputs(built, num_mel_bins=80).images
    assert (first.start, first.num_rows, first.grid) == (2, 4, (1, 2))
    assert (second.start, second.num_rows) == (8, 4)
    assert first.digest != second.digest


def test_clips_are_one_input_with_all_their_features() -> None:
    built = prompt(audio_bounds=[(1, 11), (12, 22)], clips=[clip(), clip(0.2)])
    audio = prepare_inputs(built, num_mel_bins=80).audio
    assert audio is not None
    assert audio.spans == ((1, 11), (12, 22))
    assert len(audio.mels) == 2
    assert np.array_equal(audio.mels[1], offline_mels(clip(0.2))[0])


def test_digests_tell_content_shape_and_layout_apart() -> None:
    square = np.zeros((2, 8), np.float32)
    digests = {
        media_digest("image", (1, 2), (square,)),
        media_digest("image", (2, 1), (square,)),
        media_digest("audio", (1, 2), (square,)),
        media_digest("image", (1, 2), (square.reshape(4, 4),)),
        media_digest("image", (1, 2), (square, square)),
        media_digest("image", (1, 2), (square + 1,)),
    }
    assert len(digests) == 6
    assert media_digest("image", (1, 2), (square.copy(),)) in digests


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"image_bounds": [(0, 1)], "strips": [strip(np.inf)], "patch_grids": [(1, 2)]}, "image"),
        ({"audio_bounds": [(0, 10)], "clips": [clip(np.nan)]}, "audio clip"),
    ],
)
def test_values_that_are_not_finite_are_refused(fields: dict[str, object], what: str) -> None:
    with pytest.raises(MediaError, match=f"{what}.*not finite"):
        prepare_inputs(prompt(**fields), num_mel_bins=80)
