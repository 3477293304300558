from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from antiphon.core.errors import StateError
from antiphon.core.handoff import Handoff
from antiphon.core.outputs import FinishReason
from antiphon.core.sampling import DEFAULT_STAGE_PARAMS
from antiphon.pipeline.encoding import MessageEncoding, frame_offsets, head_of, split_run
from antiphon.pipeline.messages import (
    MESSAGES,
    AudioInput,
    CodecChunk,
    ImageInput,
    SpokenPiece,
    TextEnd,
    ThinkerRequest,
)

DTYPES = [
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
]
ENCODING = MessageEncoding(MESSAGES)


@dataclass(frozen=True)
class Everything:
    tensors: tuple[Tensor, ...]
    array: NDArray[np.float32]
    numbers: tuple[int, ...]
    share: float
    text: str
    digest: bytes
    reason: FinishReason | None


def through_one_run(encoding: MessageEncoding, message: object) -> object:
    """As the ring does it: everything in one run of bytes."""
    encoded = encoding.encode(message)
    head = head_of(encoded)
    starts, size = frame_offsets(len(head), [frame.numel() for frame in encoded.frames])
    run = torch.full((size,), 0xAB, dtype=torch.uint8)
    run[: len(head)] = torch.frombuffer(bytearray(head), dtype=torch.uint8)
    for start, frame in zip(starts, encoded.frames, strict=True):
        run[start : start + frame.numel()] = frame
    return encoding.decode(*split_run(run))


def bits(tensor: Tensor) -> tuple[torch.dtype, tuple[int, ...], bytes]:
    flat = torch.empty(tensor.numel(), dtype=tensor.dtype).copy_(tensor.reshape(-1))
    return tensor.dtype, tuple(tensor.shape), flat.view(torch.uint8).numpy().tobytes()


@st.composite
def tensors(draw: st.DrawFn) -> Tensor:
    shape = draw(st.lists(st.integers(0, 4), max_size=4))
    dtype = draw(st.sampled_from(DTYPES))
    values = torch.randint(0, 256, (*shape, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(len(shape)))
    if dtype is torch.bool:
        return values[..., 0] > 100
    tensor = values.view(dtype)[..., 0]  # any bits, not-a-numbers too; and not contiguous
    return tensor.transpose(0, -1) if tensor.dim() > 1 and draw(st.booleans()) else tensor


@settings(deadline=None, max_examples=60)
@given(
    st.lists(tensors(), max_size=4),
    st.lists(st.integers(0, 2**63 - 1), max_size=5),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(max_size=100),
    st.sampled_from([None, *FinishReason]),
)
def test_what_comes_out_is_what_went_in_bit_for_bit(
    parts: list[Tensor], numbers: list[int], share: float, text: str, digest: bytes, reason: FinishReason | None
) -> None:
    encoding = MessageEncoding([Everything])
    array = np.arange(len(text) * 3, dtype=np.float32).reshape(-1, 3)
    message = Everything(tuple(parts), array, tuple(numbers), share, text, digest, reason)

    back = through_one_run(encoding, message)

    assert isinstance(back, Everything)
    assert [bits(part) for part in back.tensors] == [bits(part) for part in parts]
    assert back.array.dtype == np.float32
    assert np.array_equal(back.array, array)
    assert back.array.shape == array.shape
    assert replace(back, tensors=(), array=array) == replace(message, tensors=(), array=array)


def test_a_request_with_media_survives() -> None:
    image = ImageInput(start=3, num_rows=2, strip=np.ones((3, 2, 4), np.float32), grid=(1, 2), digest=b"\x00\xff")
    audio = AudioInput(spans=((1, 3), (5, 9)), mels=(np.zeros((80, 7), np.float32),), digest=b"")
    message = ThinkerRequest(
        request_id="r", epoch=2, ids=(1, 2), images=(image,), audio=audio, sampling=DEFAULT_STAGE_PARAMS[0],
        seed=2**63 - 1, handoff=Handoff.STREAM, deadline_s=12.5,
    )  # fmt: skip

    back = through_one_run(ENCODING, message)

    assert isinstance(back, ThinkerRequest)
    assert back.audio is not None
    assert back.audio.spans == audio.spans
    assert np.array_equal(back.images[0].strip, image.strip)
    assert replace(back, images=(), audio=None) == replace(message, images=(), audio=None)


def test_arrays_that_are_read_only_or_reversed_are_sent() -> None:
    frozen = np.arange(6, dtype=np.float32)
    frozen.flags.writeable = False
    encoding = MessageEncoding([Everything])

    for array in (frozen, np.arange(6, dtype=np.float32)[::-1], np.zeros((0, 3), np.float32)):
        back = through_one_run(encoding, Everything((), array, (), 0.0, "", b"", None))
        assert isinstance(back, Everything)
        assert np.array_equal(back.array, array)


def test_tensors_are_not_copied_when_a_message_is_taken_apart() -> None:
    rows = torch.ones(4, 8, dtype=torch.bfloat16)
    encoded = ENCODING.encode(SpokenPiece(request_id="r", epoch=0, ids=(1,), rows=rows, is_last=True))
    assert encoded.frames[0].data_ptr() == rows.data_ptr()


def test_a_type_outside_the_table_is_refused_both_ways() -> None:
    with pytest.raises(StateError, match="Everything is no message"):
        ENCODING.encode(Everything((), np.zeros(1, np.float32), (), 0.0, "", b"", None))
    stranger = MessageEncoding([Everything]).encode(Everything((), np.zeros(1, np.float32), (), 0.0, "", b"", None))
    with pytest.raises(StateError, match="received a Everything"):
        ENCODING.decode(stranger.control, stranger.frames)


@given(st.binary(max_size=200))
@settings(deadline=None, max_examples=100)
def test_noise_is_an_error_of_ours(noise: bytes) -> None:
    with pytest.raises(StateError):
        ENCODING.decode(noise, [])
    with pytest.raises(StateError):
        split_run(torch.frombuffer(bytearray(noise + b"\x01"), dtype=torch.uint8))


def test_a_frame_that_does_not_fit_its_shape_is_an_error_of_ours() -> None:
    piece = SpokenPiece(request_id="r", epoch=0, ids=(1,), rows=torch.ones(2, 3), is_last=True)
    encoded = ENCODING.encode(piece)
    for frames in ([], [encoded.frames[0][:-1]], [torch.zeros(100, dtype=torch.uint8)]):
        with pytest.raises(StateError, match="no message"):
            ENCODING.decode(encoded.control, frames)


def test_a_wrong_field_type_is_an_error_of_ours() -> None:
    good = ENCODING.encode(CodecChunk(request_id="r", epoch=0, codes=(1, 2), is_last=True))
    bad = good.control.replace(b"\xa1r", b"\xa1\xff")
    with pytest.raises(StateError, match="no message"):
        ENCODING.decode(bad, [])


def test_two_types_of_one_name_are_refused() -> None:
    other = dataclass(frozen=True)(type("TextEnd", (), {}))
    with pytest.raises(StateError, match="two message types"):
        MessageEncoding([TextEnd, other])
