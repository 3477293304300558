"""`antiphon serve` as a process: it starts, answers, drains on SIGTERM, and leaves nothing."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

BODY = {"messages": [{"role": "user", "content": "Hi"}], "modalities": ["text"], "temperature": 1.0, "ignore_eos": True}
FOREVER = {**BODY, "ignore_eos": True, "max_tokens": 30_000, "stream": True}


@dataclass
class Served:
    process: subprocess.Popen[str]
    url: str
    lines: list[str]


@pytest.fixture
def served(tiny_checkpoint: Path, request: pytest.FixtureRequest) -> Iterator[Served]:
    """The server on a free port; a test gives more flags by `pytest.mark.parametrize(..., indirect=True)`."""
    flags: list[str] = getattr(request, "param", [])
    command = [
        sys.executable,
        "-m",
        "antiphon",
        "serve",
        str(tiny_checkpoint),
        "--port",
        "0",
        "--device",
        "cpu",
        *flags,
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    lines: list[str] = []
    url = ""
    assert process.stderr is not None
    for line in process.stderr:
        lines.append(line)
        found = re.search(r"(http://localhost:\d+)/ ", line)
        url = found.group(1) if found else url
        if "API key" in line:
            break
    assert url, "".join(lines)
    rest = threading.Thread(target=lambda: lines.extend(process.stderr or ()), daemon=True)
    rest.start()
    yield Served(process, url, lines)
    if process.poll() is None:
        process.kill()
    process.wait()
    rest.join(5)
    process.stderr.close()


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_the_start_ends_with_a_table_of_what_is_served_where(served: Served) -> None:
    text = "".join(served.lines)
    for path in ("/v1/chat/completions", "/v1/audio/speech", "/v1/models", "/docs", "/health", "/metrics"):
        assert path in text
    assert httpx.get(f"{served.url}/health").json()["status"] == "healthy"
    answer = httpx.post(f"{served.url}/v1/chat/completions", json={**BODY, "max_tokens": 5}, timeout=60)
    assert answer.json()["usage"]["completion_tokens"] == 5


@pytest.mark.parametrize("served", [["--shutdown-timeout", "20"]], indirect=True)
def test_c100_sigterm_lets_what_is_in_flight_finish_and_takes_nothing_new(served: Served) -> None:
    text = ""
    with httpx.stream(
        "POST", f"{served.url}/v1/chat/completions", json={**FOREVER, "max_tokens": 600}, timeout=60
    ) as reply:
        pieces = reply.iter_text()
        text += next(pieces)
        os.kill(served.process.pid, signal.SIGTERM)
        time.sleep(0.3)
        health = httpx.get(f"{served.url}/health")
        assert (health.status_code, health.json()["reason"]) == (503, "draining")
        assert httpx.post(f"{served.url}/v1/chat/completions", json=BODY).status_code == 503
        text += "".join(pieces)
    assert text.endswith("data: [DONE]\n\n")
    assert '"finish_reason":"length"' in text
    assert served.process.wait(20) == 0


@pytest.mark.parametrize(
    "served", [["--shutdown-timeout", "0.5"], ["--shutdown-timeout", "0.5", "--processes"]], indirect=True
)
def test_c100_the_drain_time_is_kept_and_no_process_is_left(served: Served) -> None:
    workers = children(served.process.pid)
    with httpx.stream("POST", f"{served.url}/v1/chat/completions", json=FOREVER, timeout=60) as reply:
        pieces = reply.iter_raw()
        next(pieces)
        start_s = time.monotonic()
        os.kill(served.process.pid, signal.SIGTERM)
        last = b"".join(pieces)
    assert b"ended by the server" in last
    assert last.endswith(b"data: [DONE]\n\n")
    assert served.process.wait(20) == 0
    assert time.monotonic() - start_s < 12
    assert not [worker for worker in workers if Path(f"/proc/{worker}/cmdline").exists() and
                Path(f"/proc/{worker}/cmdline").read_bytes()]  # fmt: skip
    assert "Traceback" not in "".join(served.lines)
