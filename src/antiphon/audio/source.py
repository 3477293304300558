"""Opens a media input, a path or bytes, as something seekable, and says in one line what is wrong with it."""

import io
import os
import stat
from pathlib import Path
from typing import BinaryIO

from antiphon.core.errors import MediaError

MAX_MEDIA_BYTES = 2 * 1024**3  # a file of this size is not a prompt; decoders stop far earlier

MediaSource = str | os.PathLike[str] | bytes


def source_name(source: MediaSource, kind: str) -> str:
    """What an error message calls *source*: its path, or "the audio" for bytes."""
    return f"the {kind}" if isinstance(source, bytes) else os.fspath(source)


def open_source(source: MediaSource, kind: str) -> BinaryIO:
    """Open *source* for reading; the caller closes it.

    Decoders get the open file, never the path: a playlist cannot make them open another one.

    Raises:
        MediaError: no such file, a folder, a device or pipe, not readable, empty, or absurdly large.
    """
    if isinstance(source, bytes):
        if not source:
            raise MediaError(f"the {kind} is empty (0 bytes)")
        return io.BytesIO(source)
    path = Path(source)
    try:
        status = path.stat()
    except (OSError, ValueError) as error:  # ValueError: a NUL character in the name
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise MediaError(f"{kind} {path}: {reason}") from None
    if stat.S_ISDIR(status.st_mode):
        raise MediaError(f"{kind} {path}: is a folder, not a file")
    if not stat.S_ISREG(status.st_mode):
        raise MediaError(f"{kind} {path}: is not a regular file")
    if status.st_size == 0:
        raise MediaError(f"{kind} {path}: is empty (0 bytes)")
    if status.st_size > MAX_MEDIA_BYTES:
        raise MediaError(f"{kind} {path}: has {status.st_size} bytes; at most {MAX_MEDIA_BYTES} are accepted")
    try:
        return path.open("rb")
    except OSError as error:
        raise MediaError(f"{kind} {path}: {error.strerror}") from None
