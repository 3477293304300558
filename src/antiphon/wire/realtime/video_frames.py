"""The frames that ride an append: shape, number, size and kind, checked before a pixel is decoded."""

import binascii
from base64 import b64decode

from antiphon.wire.realtime.errors import RealtimeError

MAX_FRAMES = 2  # a base frame and a stacked composite
MAX_FRAME_CHARS = 4_000_000
_JPEG, _PNG = b"\xff\xd8", b"\x89PNG\r\n\x1a\n"
_PARAM = "video_frames"


def parse_video_frames(value: object, max_slice_nums: object) -> tuple[bytes, ...]:
    """The encoded images of one append, base frame first. Raises RealtimeError `invalid_video_frames`."""
    if max_slice_nums is not None and (isinstance(max_slice_nums, bool) or max_slice_nums != 1):
        raise _refuse("max_slice_nums may be null or 1: slicing is the server's", "max_slice_nums")
    if value is None:
        return ()
    if not isinstance(value, list):
        raise _refuse("must be a list")
    frames = [entry for entry in value if entry is not None]
    if len(frames) > MAX_FRAMES:
        raise _refuse(f"{len(frames)} frames; at most {MAX_FRAMES} ride one append")
    return tuple(_decode(index, frame) for index, frame in enumerate(frames))


def _decode(index: int, frame: object) -> bytes:
    if not isinstance(frame, str) or not frame:
        raise _refuse(f"frame {index} is no base64 string")
    if len(frame) > MAX_FRAME_CHARS:
        raise _refuse(f"frame {index} has {len(frame)} characters; {MAX_FRAME_CHARS} are possible")
    if frame.startswith("data:"):
        raise _refuse(f"frame {index} is a data URL; send the bare base64")
    try:
        image = b64decode(frame, validate=True)
    except (binascii.Error, ValueError):
        raise _refuse(f"frame {index} is not valid base64") from None
    if not image.startswith((_JPEG, _PNG)):
        raise _refuse(f"frame {index} is neither JPEG nor PNG")
    return image


def _refuse(reason: str, param: str = _PARAM) -> RealtimeError:
    return RealtimeError("invalid_video_frames", f"{_PARAM}: {reason}", param=param)
