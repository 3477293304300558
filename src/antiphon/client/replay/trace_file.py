"""Reads a trace, as `antiphon serve --record` keeps it."""

from dataclasses import dataclass
from pathlib import Path

import msgspec

from antiphon.core.errors import ConfigError
from antiphon.wire.realtime.trace import FORMAT, TraceLine, TraceOpened, TraceTruncated, parse_line


@dataclass(frozen=True)
class Trace:
    """One session. `cut_off` says why the recording stopped before the session did."""

    lines: tuple[TraceLine, ...]
    cut_off: str | None = None

    @property
    def duration_s(self) -> float:
        return self.lines[-1].at_s


def read_trace(path: Path) -> Trace:
    """Raises ConfigError that names the line."""
    try:
        rows = path.read_bytes().splitlines()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
    lines: list[TraceLine] = []
    cut_off = None
    for number, row in enumerate(rows, start=1):
        try:
            line = parse_line(row)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            if number == len(rows) and lines:
                cut_off = "its last line is incomplete"
                break
            raise ConfigError(f"{path}:{number}: is no line of a trace ({error})") from None
        if isinstance(line, TraceOpened) and line.format != FORMAT:
            raise ConfigError(f"{path}:{number}: has format {line.format}; this version reads {FORMAT}")
        if isinstance(line, TraceTruncated):
            cut_off = cut_off or line.reason
        else:
            lines.append(line)
    if not lines or not isinstance(lines[0], TraceOpened):
        raise ConfigError(f"{path}: is no trace; it does not begin with a connection")
    return Trace(tuple(lines), cut_off)
