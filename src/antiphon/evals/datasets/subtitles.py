"""The words of a SubRip file, without its times."""

import re
from pathlib import Path

from antiphon.core.errors import MediaError

_TIMES = re.compile(r"\d+:\d\d:\d\d[,.]\d+\s*-->.*")
_TAG = re.compile(r"</?[a-zA-Z][^>]*>|\{\\[^}]*\}")


def read_subtitles(path: Path) -> str:
    """One line for each that is shown; "" if there is no such file: not every video has subtitles."""
    if not path.is_file():
        return ""
    try:
        lines = path.read_text(encoding="utf-8-sig", errors="replace").splitlines()
    except OSError as error:
        raise MediaError(f"{path}: {error.strerror}") from None
    kept: list[str] = []
    for place, line in enumerate(lines):
        following = lines[place + 1] if place + 1 < len(lines) else ""
        if _TIMES.match(line) or (line.strip().isdecimal() and _TIMES.match(following)):
            continue
        if text := _TAG.sub("", line).strip():
            kept.append(text)
    return "\n".join(kept)
