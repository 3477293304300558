"""Media files of a data set as addresses for a request: inline, or by `file:` for a server that may read them."""

import mimetypes
from pathlib import Path

from antiphon.bench.datasets.made_media import data_url
from antiphon.core.errors import MediaError


def media_url(path: Path, *, is_inline: bool) -> str:
    """The `data:` address of *path*, or its `file:` address.

    Raises:
        MediaError: the file is missing or cannot be read.
    """
    if not path.is_file():
        raise MediaError(f"{path}: no such file")
    if not is_inline:
        return path.resolve().as_uri()
    try:
        content = path.read_bytes()
    except OSError as error:
        raise MediaError(f"{path}: {error.strerror}") from None
    return data_url(mimetypes.guess_type(path.name)[0] or "application/octet-stream", content)
