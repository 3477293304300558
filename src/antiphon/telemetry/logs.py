"""Log lines that carry the id of the request they belong to, as text for people or as JSON for machines."""

import json
import logging
import sys
import time
from contextvars import ContextVar
from pathlib import Path
from typing import Literal

request_id: ContextVar[str] = ContextVar("request_id", default="-")
LogFormat = Literal["text", "json"]
FIELDS = "fields"  # `extra={FIELDS: {...}}` adds keys to a line
_COLOURS = {logging.WARNING: "\x1b[33m", logging.ERROR: "\x1b[31m", logging.CRITICAL: "\x1b[31;1m"}


class _WithRequest(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        record.request_id = request_id.get()
        return True


class TextFormatter(logging.Formatter):
    """`12:00:00.123 INFO antiphon.serving [chatcmpl-1] message key=value`."""

    def __init__(self, *, coloured: bool) -> None:
        super().__init__("%(asctime)s.%(msecs)03d %(levelname)s %(name)s [%(request_id)s] %(message)s", "%H:%M:%S")
        self._coloured = coloured

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, object] = record.__dict__.get(FIELDS, {})
        line = " ".join([super().format(record), *(f"{name}={value}" for name, value in fields.items())])
        colour = _COLOURS.get(record.levelno)
        return f"{colour}{line}\x1b[0m" if self._coloured and colour else line


class JsonFormatter(logging.Formatter):
    """One object a line; times are UTC."""

    converter = staticmethod(time.gmtime)

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": f"{self.formatTime(record, '%Y-%m-%dT%H:%M:%S')}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "request_id": record.__dict__.get("request_id", "-"),
            "message": record.getMessage(),
            **record.__dict__.get(FIELDS, {}),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def set_up_logs(
    *, form: LogFormat = "text", level: str = "INFO", file: Path | None = None, coloured: bool = True
) -> None:
    """Send the logs of this process to stderr, or to *file*."""
    handler = logging.StreamHandler(sys.stderr) if file is None else logging.FileHandler(file, encoding="utf-8")
    is_terminal = file is None and sys.stderr.isatty()
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter(coloured=coloured and is_terminal))
    handler.addFilter(_WithRequest())
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    for name in ("antiphon", "uvicorn"):
        logging.getLogger(name).setLevel(level)
        logging.getLogger(name).propagate = True
