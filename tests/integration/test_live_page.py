"""The live page in a real browser with a microphone and a camera that are files. Needs the system's Chromium."""

import asyncio
import base64
import json
import shutil
import subprocess
import sys
import threading
import time
import wave
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uvicorn
from PIL import Image
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from antiphon.realtime.limits import Limits
from antiphon.realtime.script import DEFAULT_SCRIPT, Script
from antiphon.serving.realtime.hub import Hub
from antiphon.serving.realtime.proxy import parse_upstream, proxy_app
from antiphon.serving.realtime.routes import UVICORN_OPTIONS
from antiphon.serving.realtime.scripted_app import scripted_app, scripted_hub, scripted_settings

CHROMIUM = shutil.which("chromium")
VISIT = Path(__file__).parents[1] / "support" / "live_visit.py"
RATE_HZ = 48_000
ANSWER = "This is a scripted answer."
ANSWER_SAMPLES = 4 * 24_000
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")


def voice(seconds: float) -> np.ndarray:
    """Syllables on a voice that rises and falls: browsers filter out what sounds like noise or a steady tone."""
    time_s = np.arange(round(seconds * RATE_HZ)) / RATE_HZ
    phase = 2 * np.pi * np.cumsum(120 + 30 * np.sin(2 * np.pi * 0.7 * time_s)) / RATE_HZ
    tones = sum(np.sin(number * phase) / number for number in range(1, 20))
    return 0.2 * tones * np.sqrt(np.clip(np.sin(2 * np.pi * 4 * time_s), 0, None))


@pytest.fixture
def recording(tmp_path: Path) -> Callable[..., Path]:
    """Writes speech and pauses (negative seconds), which the browser's microphone plays over and over."""

    def make(*parts: float) -> Path:
        pieces = [voice(part) if part > 0 else np.zeros(round(-part * RATE_HZ)) for part in parts]
        path = tmp_path / "microphone.wav"
        with wave.open(str(path), "wb") as writer:
            writer.setnchannels(1)
            writer.setsampwidth(2)
            writer.setframerate(RATE_HZ)
            writer.writeframes((np.concatenate(pieces) * 32767).astype("<i2").tobytes())
        return path

    return make


@dataclass
class Server:
    url: str
    loop: asyncio.AbstractEventLoop
    hub: Hub | None

    def wait_empty(self) -> None:
        assert self.hub is not None
        deadline = time.monotonic() + 10
        while self.hub.num_sessions:
            assert time.monotonic() < deadline, "a session was left behind"
            time.sleep(0.02)


@contextmanager
def serving(make_app: Callable[[], tuple[Starlette, Hub | None]]) -> Iterator[Server]:
    """Serve on a thread. `/test/cut` aborts every WebSocket at its transport, `/test/free` empties the slots."""
    ready = threading.Event()
    found: list[Any] = []

    async def serve() -> None:
        app, hub = make_app()
        config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", **UVICORN_OPTIONS)
        server = uvicorn.Server(config)

        async def cut(request: Request) -> JSONResponse:
            for connection in list(server.server_state.connections):
                if "WebSocket" in type(connection).__name__:
                    connection.transport.abort()
            return JSONResponse({})

        async def free(request: Request) -> JSONResponse:
            hub.admission.give_back("somebody", 0.0)
            return JSONResponse({})

        app.router.routes[:0] = [Route("/test/cut", cut), Route("/test/free", free)]
        task = asyncio.create_task(server.serve())
        while not server.started:
            assert not task.done()
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        found.extend((server, Server(f"http://127.0.0.1:{port}", asyncio.get_running_loop(), hub)))
        ready.set()
        await task

    thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
    thread.start()
    assert ready.wait(10)
    uvicorn_server, server = found
    yield server
    uvicorn_server.should_exit = True
    thread.join(10)
    assert not thread.is_alive()


def scripted(settings: Any = None, script: Script = DEFAULT_SCRIPT) -> Callable[[], tuple[Starlette, Hub]]:
    def make() -> tuple[Starlette, Hub]:
        hub = scripted_hub(script, settings)
        return scripted_app(hub), hub

    return make


def visit(name: str, server: Server, sound: Path, tmp_path: Path, width: int = 1280) -> dict[str, Any]:
    shot = tmp_path / "page.png"
    command = [sys.executable, str(VISIT), name, server.url, str(CHROMIUM), str(width), str(sound), str(shot)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
    assert result.returncode == 0, result.stderr
    if shot.exists():
        with Image.open(shot) as picture:
            assert picture.size == (width, 800)
    return json.loads(result.stdout)


@pytest.mark.parametrize("width", [1280, 390])
def test_one_speaks_is_answered_interrupts_and_survives_a_cut_line(
    recording: Callable[..., Path], tmp_path: Path, width: int
) -> None:
    with serving(scripted()) as server:
        seen = visit("converse", server, recording(-0.5, 1.5, -6), tmp_path, width)
        server.wait_empty()
    interrupted, answered, figures = seen["interrupted"], seen["answered"], seen["figures"]
    assert seen["troubles"] == []
    assert interrupted["user"][0].startswith("You spoke")
    assert interrupted["facts"][0].startswith("interrupted after")
    assert interrupted["spoken"][0] + interrupted["ahead"][0] == ANSWER
    assert 0 < len(interrupted["spoken"][0]) < len(ANSWER)
    assert 20_000 < interrupted["sounding"] < ANSWER_SAMPLES
    assert any("resumed" in note for note in answered["notes"])
    assert answered["states"][:3] == ["Connecting…", "Listening", "Speaking"]
    assert any(state.startswith("Reconnecting, attempt 1") for state in answered["states"])
    assert answered["spoken"][-1] == ANSWER
    assert answered["facts"][-1] == "4.0 s of speech"
    assert answered["sounding"] > interrupted["sounding"] + 0.9 * ANSWER_SAMPLES
    assert answered["width"] <= width, "the page scrolls sideways"
    assert figures["decision"] < 500
    assert figures["first"] < 1000
    assert figures["heard"] > 4
    assert seen["seqs"] == list(range(1, len(seen["seqs"]) + 1))
    assert seen["types"].count("session.resumed") == 1
    assert "error" not in seen["types"]
    assert seen["types"][-1] == "session.closed"
    check_playback(seen)
    check_pictures(seen["frames"])


def check_playback(seen: dict[str, Any]) -> None:
    """Every played sample is told; what the server keeps as heard is what the page shows as spoken."""
    first, last = (next(iter(seen["acks"]))["response_id"], seen["acks"][-1]["response_id"])
    told = [event for event in seen["told"] if event["response_id"] == first]
    assert told[-1]["history_text"] == seen["interrupted"]["spoken"][0]
    assert seen["acks"][-1]["played_ms"] == ANSWER_SAMPLES / 24
    for name in (first, last):
        played = [ack["played_ms"] for ack in seen["acks"] if ack["response_id"] == name]
        assert played == sorted(played)
        assert all((ack * 24) == pytest.approx(round(ack * 24)) for ack in played)


def check_pictures(frames: list[list[str] | None]) -> None:
    """One JPEG with the piece of sound that closes a second, and none elsewhere."""
    with_picture = [index for index, group in enumerate(frames) if group]
    assert len(with_picture) > 5
    assert all(len(frames[index]) == 1 for index in with_picture)
    assert base64.b64decode(frames[with_picture[0]][0])[:2] == b"\xff\xd8"
    before_the_cut = with_picture[:3]
    assert {index % 5 for index in before_the_cut} == {4}
    assert all(later - earlier >= 5 for earlier, later in pairwise(with_picture))


def test_speaking_over_the_answer_stops_it(recording: Callable[..., Path], tmp_path: Path) -> None:
    with serving(scripted()) as server:
        seen = visit("speak_over", server, recording(-0.5, 1.5, -2.5, 2.5, -4), tmp_path)
        server.wait_empty()
    assert seen["troubles"] == []
    assert 0 < len(seen["spoken"][0]) < len(ANSWER)
    assert 5_000 < seen["sounding"] < ANSWER_SAMPLES
    assert seen["user"][-1] == "You are speaking"


def test_an_interruption_while_the_line_is_cut_is_told_afterwards(
    recording: Callable[..., Path], tmp_path: Path
) -> None:
    with serving(scripted()) as server:
        seen = visit("interrupt_without_a_line", server, recording(-0.5, 1.5, -8), tmp_path)
        server.wait_empty()
    assert seen["troubles"] == []
    assert "session.resumed" in seen["types"]
    assert "output_audio_buffer.cleared" in seen["types"]
    assert seen["told"][-1]["history_text"] == seen["spoken"][0]
    assert len(seen["spoken"][0]) < len(ANSWER)


def test_the_page_asks_for_the_key_and_brings_it(recording: Callable[..., Path], tmp_path: Path) -> None:
    settings = replace(scripted_settings(), api_keys=("secret",))
    with serving(scripted(settings)) as server:
        seen = visit("bring_a_key", server, recording(-2), tmp_path)
        server.wait_empty()
    assert "API key" in seen["asked"]
    assert not seen["trouble"]


def test_who_finds_no_place_waits_for_one(recording: Callable[..., Path], tmp_path: Path) -> None:
    settings = replace(scripted_settings(), limits=Limits(max_sessions=1))

    def full() -> tuple[Starlette, Hub]:
        app, hub = scripted(settings)()
        hub.admission.take("somebody", 0.0)
        return app, hub

    with serving(full) as server:
        seen = visit("be_refused", server, recording(-2), tmp_path)
        server.wait_empty()
    assert seen["troubles"] == []
    assert seen["trouble"] == ""


def test_a_queue_a_warning_an_error_and_the_end_are_said_in_words(
    recording: Callable[..., Path], tmp_path: Path
) -> None:
    with serving(scripted()) as server:
        seen = visit("meet_a_server_that_queues", server, recording(-2), tmp_path, 390)
    assert seen["troubles"] == []
    assert seen["waiting"] == "Waiting, place 2 of 3, about 20 s"
    assert seen["notes"] == ["the server goes away in 30 s"]
    assert seen["complaint"] == "Too much input waits."
    assert seen["end"] == "The server ended the session: nothing happened for too long."
    session = seen["first"]["session"]
    assert session["instructions"] == "Be brief."
    assert session["ref_audio"] == "data:audio/wav;base64,UklGRg=="
    assert session["extra_body"]["auto_response"] is True
    assert "turn_detection" not in session


def test_the_page_stands_alone_in_front_of_a_server(recording: Callable[..., Path], tmp_path: Path) -> None:
    with (
        serving(scripted()) as server,
        serving(lambda: (proxy_app(parse_upstream(server.url)), None)) as front,
    ):
        seen = visit("simply_talk", front, recording(-0.5, 1.5, -8), tmp_path, 390)
        server.wait_empty()
    assert seen["troubles"] == []
    assert seen["spoken"][0] == ANSWER
    assert seen["sounding"] > 0.9 * ANSWER_SAMPLES


def test_pieces_that_come_late_leave_gaps_and_are_all_played(recording: Callable[..., Path], tmp_path: Path) -> None:
    late = replace(scripted_settings(), scorer_source=None)
    with serving(scripted(late, Script(answers=DEFAULT_SCRIPT.answers, gap_ms=1300))) as server:
        seen = visit("simply_talk", server, recording(-0.5, 1.5, -12), tmp_path)
        server.wait_empty()
    assert seen["troubles"] == []
    assert seen["gaps"] >= 2
    assert seen["facts"][0] == "4.0 s of speech"
    assert seen["sounding"] > 0.95 * ANSWER_SAMPLES  # the sine wave itself has zeros
    assert any("does not notice" in note for note in seen["notes"])
    assert seen["trouble"] == ""
    assert seen["user"][0].startswith("You spoke")


def test_the_microphone_is_resampled_without_a_trace(recording: Callable[..., Path], tmp_path: Path) -> None:
    with serving(scripted()) as server:
        seen = visit("resample", server, recording(-1), tmp_path)
    assert seen["troubles"] == []
    for tone in seen["tones"]:
        assert 15_900 < tone["length"] <= 16_000
        assert tone["error"] < 0.01
        assert tone["leak"] < 0.02
