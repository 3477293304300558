from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from antiphon.core.errors import PromptError
from antiphon.core.sampling import SamplingParams
from antiphon.engine.device_stream import DeviceStream
from antiphon.pipeline.messages import AudioInput, ImageInput, ThinkerRequest
from antiphon.pipeline.stages.media import MediaEncoder


class FakeModel:
    """Each picture gives three rows of its first pixel; each clip as many rows as it has frames."""

    def encode_images(self, strips: Sequence[Tensor], grids: Sequence[tuple[int, int]]) -> list[Tensor]:
        return [torch.full((3, 2), float(strip[0, 0, 0])) for strip in strips]

    def encode_audio(self, mels: Sequence[Tensor]) -> list[Tensor]:
        return [mel.T[:, :2] for mel in mels]


def encode(*images: ImageInput, audio: AudioInput | None = None) -> list[tuple[int, list[float], bytes]]:
    request = ThinkerRequest(
        request_id="a",
        epoch=0,
        ids=tuple(range(20)),
        images=images,
        audio=audio,
        sampling=SamplingParams(),
        seed=0,
        handoff=None,
        deadline_s=0.0,
    )
    encoder = MediaEncoder(FakeModel(), DeviceStream(torch.device("cpu")))
    return [(media.start, media.rows[:, 0].tolist(), media.digest) for media in encoder.encode(request)]


def picture(start: int, value: float, num_rows: int = 3) -> ImageInput:
    strip = np.full((3, 2, 2), value, np.float32)
    return ImageInput(start=start, num_rows=num_rows, strip=strip, grid=(1, 1), digest=b"%d" % start)


def sound(*spans: tuple[int, int], frames: int) -> AudioInput:
    mel = np.arange(frames, dtype=np.float32)[None].repeat(4, 0)
    return AudioInput(spans=spans, mels=(mel,), digest=b"s")


def test_media_come_in_the_order_of_their_positions() -> None:
    rows = encode(picture(0, 1.0), picture(9, 2.0), audio=sound((4, 6), (7, 9), frames=4))
    assert [(start, values) for start, values, _ in rows] == [
        (0, [1.0] * 3),
        (4, [0.0, 1.0]),
        (7, [2.0, 3.0]),
        (9, [2.0] * 3),
    ]
    assert len({digest for *_, digest in rows}) == 4


def test_rows_of_sound_left_over_are_dropped() -> None:
    assert [values for _, values, _ in encode(audio=sound((4, 6), frames=9))] == [[0.0, 1.0]]


def test_rows_that_do_not_fit_are_refused() -> None:
    with pytest.raises(PromptError, match="gives 3 rows for its span of 4"):
        encode(picture(0, 1.0, num_rows=4))
    with pytest.raises(PromptError, match="4 audio placeholders but its clips give 3"):
        encode(audio=sound((4, 8), frames=3))
