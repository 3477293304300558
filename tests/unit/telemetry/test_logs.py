import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from antiphon.telemetry.logs import FIELDS, JsonFormatter, TextFormatter, request_id, set_up_logs


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    for handler in list(root.handlers):
        if handler not in handlers:
            root.removeHandler(handler)
            handler.close()
    for handler in handlers:
        root.addHandler(handler)
    root.setLevel(level)


def write(path: Path, **options: object) -> list[str]:
    set_up_logs(file=path, **options)  # type: ignore[arg-type]
    log = logging.getLogger("antiphon.test")
    token = request_id.set("abc")
    log.info("said %s", "ü", extra={FIELDS: {"tokens": 3}})
    request_id.reset(token)
    log.debug("unseen")
    try:
        raise ValueError("why")
    except ValueError:
        log.exception("failed")
    return path.read_text(encoding="utf-8").splitlines()


def test_a_line_for_machines_is_one_object(tmp_path: Path) -> None:
    said, failed = map(json.loads, write(tmp_path / "log", form="json"))
    assert {key: said[key] for key in ("message", "level", "request_id", "tokens")} == {
        "message": "said ü",
        "level": "info",
        "request_id": "abc",
        "tokens": 3,
    }
    assert said["time"].endswith("Z")
    assert "ValueError: why" in failed["trace"]


def test_a_line_for_people_carries_the_request_and_the_fields(tmp_path: Path) -> None:
    lines = write(tmp_path / "log")
    assert lines[0].endswith("INFO antiphon.test [abc] said ü tokens=3")
    assert "[-] failed" in lines[1]
    assert not any("unseen" in line for line in lines)


def test_only_terminals_get_colours() -> None:
    record = logging.LogRecord("n", logging.ERROR, "", 0, "m", (), None)
    record.request_id = "-"
    assert TextFormatter(coloured=True).format(record).startswith("\x1b[31m")
    assert "\x1b" not in TextFormatter(coloured=False).format(record)
    assert "\x1b" not in JsonFormatter().format(record)
