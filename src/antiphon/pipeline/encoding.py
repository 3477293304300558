"""Messages to bytes and back: msgpack for what is small, raw frames for what is large. Never pickle, never JSON floats.

A message is a frozen dataclass from a closed table of types. Its tensors and arrays leave the tree: in their place
stands an extension that says which frame, which dtype and which shape; the frame is the memory as it is, bfloat16 too.
Who carries the frames copies them once, straight from where they lie, be it a device.
"""

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon.core.errors import StateError

FRAME_ALIGNMENT = 64  # bytes; a cache line, and enough for every dtype to be viewed where it lies
_TENSOR, _ARRAY = 1, 2  # extension codes
_DTYPES: dict[str, torch.dtype] = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        *(torch.float32, torch.float64, torch.float16, torch.bfloat16),
        *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
    )
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


@dataclass(frozen=True)
class Encoded:
    """One message ready to travel. Frames are flat uint8 tensors where the message's own tensors lie."""

    control: bytes
    frames: tuple[Tensor, ...]

    @property
    def num_bytes(self) -> int:
        return len(self.control) + sum(frame.numel() for frame in self.frames)


class MessageEncoding:
    """Knows the message types of one connection. Both ends must be built from the same table.

    Args:
        types: frozen dataclasses; a name stands for one type.
    """

    def __init__(self, types: Iterable[type]) -> None:
        self._types: dict[str, type] = {}
        for kind in types:
            if self._types.setdefault(kind.__name__, kind) is not kind:
                raise StateError(f"two message types are called {kind.__name__}; rename one")

    def encode(self, message: object) -> Encoded:
        """Take *message* apart. Its tensors are shared, not copied: keep them unchanged until the frames are sent.

        Raises:
            StateError: a type, or a value in it, that no receiver could rebuild.
        """
        name = type(message).__name__
        if self._types.get(name) is not type(message):
            raise StateError(f"{name} is no message of this connection; known: {', '.join(sorted(self._types))}")
        frames: list[Tensor] = []
        try:
            body = msgspec.msgpack.encode(message, enc_hook=_frame_writer(frames))
        except (TypeError, NotImplementedError, UnicodeEncodeError, OverflowError) as error:
            raise StateError(f"{name} cannot be sent: {error}") from error
        return Encoded(msgspec.msgpack.encode((name, msgspec.Raw(body))), tuple(frames))

    def decode(self, control: bytes, frames: Sequence[Tensor]) -> object:
        """Rebuild a message. Its tensors are views of *frames*, flat uint8 at 64-byte offsets of CPU memory.

        Raises:
            StateError: bytes that are no message of this connection, or do not fit its type.
        """
        try:
            name, body = _ENVELOPE.decode(control)
            kind = self._types.get(name)
            if kind is None:
                raise StateError(f"received a {name}, which is no message of this connection")
            return msgspec.msgpack.decode(body, type=kind, ext_hook=_frame_reader(frames), dec_hook=_as_it_is)
        except (msgspec.DecodeError, ValueError, TypeError, IndexError, KeyError, RuntimeError) as error:
            raise StateError(f"received bytes that are no message: {error}") from error


_ENVELOPE = msgspec.msgpack.Decoder(tuple[str, msgspec.Raw])
_HEADER = msgspec.msgpack.Decoder(tuple[int, str, tuple[int, ...]])  # frame, dtype, shape


def _frame_writer(frames: list[Tensor]) -> Callable[[object], object]:
    def write(value: object) -> object:
        if isinstance(value, Tensor):
            code, tensor = _TENSOR, value
        elif isinstance(value, np.ndarray):
            code, tensor = _ARRAY, torch.from_numpy(_writable(value))
        else:
            raise NotImplementedError(f"a {type(value).__name__} has no encoding")
        dtype = _NAMES.get(tensor.dtype)
        if dtype is None:
            raise NotImplementedError(f"a tensor of {tensor.dtype} has no encoding")
        frames.append(flat_bytes(tensor))
        return msgspec.msgpack.Ext(code, msgspec.msgpack.encode((len(frames) - 1, dtype, tuple(tensor.shape))))

    return write


def _writable(array: NDArray[np.generic]) -> NDArray[np.generic]:
    """torch takes neither read-only arrays nor negative strides."""
    is_plain = array.flags.writeable and array.flags.c_contiguous
    return array if is_plain else array.copy()


def flat_bytes(tensor: Tensor) -> Tensor:
    """The memory of *tensor* as uint8 [bytes], on its device; copied only if it is not contiguous."""
    if not tensor.numel():
        return torch.empty(0, dtype=torch.uint8)
    # The stride of a dimension of size 1 may be anything, which `view` to bytes would refuse.
    return tensor.detach().contiguous().as_strided((tensor.numel(),), (1,)).view(torch.uint8)


def _frame_reader(frames: Sequence[Tensor]) -> Callable[[int, memoryview], object]:
    def read(code: int, body: memoryview) -> object:
        index, name, shape = _HEADER.decode(bytes(body))
        if code not in (_TENSOR, _ARRAY) or index < 0 or any(size < 0 for size in shape):
            raise ValueError(f"extension {code}, frame {index}, shape {shape}")
        tensor = frames[index].view(_DTYPES[name]).reshape(shape)
        return tensor if code == _TENSOR else tensor.numpy()

    return read


def _as_it_is(kind: type, value: object) -> object:
    """Called for fields of types msgspec does not know; only tensors and arrays, built by the extension, are such."""
    if not isinstance(value, (Tensor, np.ndarray)):
        raise ValueError(f"a {type(value).__name__} where {kind} was expected")
    return value


def head_of(encoded: Encoded) -> bytes:
    """What goes before the frames of a message that travels as one run of bytes: lengths, then the control part."""
    sizes = [frame.numel() for frame in encoded.frames]
    return struct.pack(f"<II{len(sizes)}Q", len(encoded.control), len(sizes), *sizes) + encoded.control


def frame_offsets(head_bytes: int, frame_bytes: Sequence[int]) -> tuple[list[int], int]:
    """Where each frame starts in that run, and how long it is in all."""
    starts, end = [], aligned(head_bytes)
    for size in frame_bytes:
        starts.append(end)
        end = aligned(end + size)
    return starts, end


def split_run(run: Tensor) -> tuple[bytes, list[Tensor]]:
    """Take one run of bytes, uint8 [n], apart again: the control part and views of the frames.

    Raises:
        StateError: its lengths do not fit together.
    """
    memory = run.numpy().data
    try:
        control_bytes, num_frames = struct.unpack_from("<II", memory)
        sizes = struct.unpack_from(f"<{num_frames}Q", memory, 8)
    except struct.error as error:
        raise StateError(f"received {len(memory)} bytes that are no message: {error}") from error
    head_bytes = 8 + 8 * num_frames + control_bytes
    starts, end = frame_offsets(head_bytes, sizes)
    if end != len(memory):
        raise StateError(f"received {len(memory)} bytes of a message of {end}")
    control = bytes(memory[head_bytes - control_bytes : head_bytes])
    return control, [run[start : start + size] for start, size in zip(starts, sizes, strict=True)]


def aligned(num_bytes: int) -> int:
    return -(-num_bytes // FRAME_ALIGNMENT) * FRAME_ALIGNMENT
