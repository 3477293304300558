"""Live sessions with the tiny model over a real socket: a conversation, OpenAI's SDK, detector, metrics, the end."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import pytest
from duplex_engine import talkative_model
from openai import AsyncOpenAI

from antiphon.client import DuplexClient, EventCollector, SessionConfig
from antiphon.client.conformance.catalogue import CASES
from antiphon.client.conformance.peer import Peer
from antiphon.client.conformance.runner import Verdict, run_case
from antiphon.client.conformance.sounds import loud, png, tone
from antiphon.client.conformance.target import Target
from antiphon.config.load import load_deploy
from antiphon.pipeline.eager.voices import DEFAULT_VOICE
from antiphon.pipeline.local_engine import LocalEngine
from antiphon.serving.app import Services, create_app
from antiphon.serving.engine_pipeline import EnginePipeline
from antiphon.serving.realtime.service import realtime_service
from antiphon.serving.served_model import describe_model
from antiphon.serving.settings import ServeSettings

MAX_UNITS = 40  # until a random model has spoken
AUTO: dict[str, Any] = {"auto_response": True}
WINDOW = {**AUTO, "sliding_window_mode": "basic", "basic_window_high_tokens": 150, "basic_window_low_tokens": 90}


class Server:
    def __init__(self, url: str, engine: LocalEngine) -> None:
        self.url, self.engine = url, engine

    def play(self, scene: Callable[[Target], Awaitable[None]]) -> None:
        """Run *scene*; afterwards nothing of its sessions is left."""

        async def run() -> None:
            target = Target(url=self.url.replace("http", "ws", 1))
            await asyncio.wait_for(scene(target), 120)
            await target.finish(checks=True)
            for _ in range(500):
                if not self.engine.duplex.num_sessions and not self.held():
                    return
                await asyncio.sleep(0.01)
            raise AssertionError(f"{self.engine.duplex.num_sessions} sessions are left, and {self.held()}")

        asyncio.run(run())

    def held(self) -> dict[str, float]:
        names = ("sessions", "slots_lent", "blocks_used", "audio_streams", "streams")
        return {name: value for name, value in self.engine.snapshot().items() if name.endswith(names) and value}


@pytest.fixture(scope="module")
def server(tiny_checkpoint: Path, listen: Any) -> Iterator[Server]:
    model = talkative_model(tiny_checkpoint)
    deploy = load_deploy("cpu.yaml", platform="cpu")
    engine = LocalEngine(model, deploy)
    engine.start()
    assert model.folder is not None
    settings, served = (
        ServeSettings(),
        describe_model(model, deploy, root="tiny", names=("tiny",), created_s=1, is_tiny=True),
    )
    services = Services(
        pipeline=EnginePipeline(engine),
        model=served,
        voices=engine.voices,
        settings=settings,
        default_voice=model.folder / DEFAULT_VOICE,
        realtime=realtime_service(
            engine.duplex,
            engine.voices,
            deploy.duplex_session,
            settings,
            model="tiny",
            default_recording=model.folder / DEFAULT_VOICE,
            max_voice_s=served.max_voice_s,
            max_positions=engine.session_positions,
            speaks=True,
            is_duplex=True,
        ),
    )
    with listen(create_app(services)) as url:
        yield Server(url, engine)


async def talk_until(peer: Peer, wanted: str, **fields: Any) -> None:
    """Say a second after another until *wanted* has come."""
    for _ in range(MAX_UNITS):
        await peer.append(loud(1000), **fields)
        for _ in range(100):
            if any(event["type"] == wanted for event in peer.events):
                return
            if not peer.events or peer.events[-1]["type"] in ("response.listen", "response.done"):
                break
            await asyncio.sleep(0.02)
    await peer.get(wanted, timeout_s=30)


def test_a_conversation(server: Server) -> None:
    async def scene(target: Target) -> None:
        peer = await target.open({"extra_body": {**WINDOW, "return_stage_metrics": True}})
        await talk_until(peer, "response.output_audio.delta")
        delta = next(event for event in peer.events if event["type"] == "response.output_audio.delta")
        await peer.send("playback.ack", response_id=delta["response_id"], played_ms=200)
        await peer.get("playback.acknowledged", timeout_s=30)
        if not any(event["type"] == "response.done" for event in peer.events):
            await peer.send("response.cancel")
        done = next((event for event in peer.events if event["type"] == "response.done"), None) or await peer.get(
            "response.done", timeout_s=30
        )
        assert done["response"]["usage"]["total_tokens"] > 0
        assert done["response"]["status"] in ("completed", "cancelled")
        for _ in range(MAX_UNITS):
            await peer.append(loud(1000))
            await peer.pause(0.05)
            if any(event.get("code") == "context_window_moved" for event in peer.events):
                break
        await peer.alive()
        moved = [event for event in peer.events if event.get("code") == "context_window_moved"]
        assert moved
        assert moved[0]["details"]["units"] > 0
        await peer.send("session.close")
        assert (await peer.get("session.closed", timeout_s=30))["reason"] == "client_close"

    server.play(scene)


def test_pictures_are_seen_and_a_broken_one_fails_its_unit_only(server: Server) -> None:
    async def scene(target: Target) -> None:
        peer = await target.open({"extra_body": AUTO})
        await peer.append(loud(1000), video_frames=[png()])
        await peer.pause(0.5)
        await peer.append(loud(1000), video_frames=["AAAA"])
        await peer.pause(0.5)
        await peer.append(loud(1000))
        await peer.alive()
        assert {event["error"]["code"] for event in peer.events if event["type"] == "error"} <= {"invalid_video_frames"}

    server.play(scene)


def test_the_duplex_client_hears_a_spoken_answer(server: Server) -> None:
    async def scene(target: Target) -> None:
        config = SessionConfig(modalities=("text", "audio"), extra_body=AUTO)
        async with DuplexClient(target.url, model="tiny", config=config, reconnect=None) as client:
            collector = EventCollector()
            listening = asyncio.create_task(collector.consume(client))
            second = (tone(1000) * 32767).astype("<i2").tobytes()
            for _ in range(MAX_UNITS):
                await client.append_audio(second)
                await asyncio.sleep(0.1)
                if any(event["type"] == "response.output_audio.delta" for event in collector.events):
                    break
        await listening
        assert any(event["type"] == "response.output_audio.delta" for event in collector.events)
        assert collector.events[-1]["type"] == "session.closed"

    server.play(scene)


@pytest.mark.parametrize("detection", [None, "server_vad"])
def test_openai_sdk(server: Server, detection: str | None) -> None:
    if detection is not None and find_spec("silero_vad") is None:
        pytest.skip("silero-vad is not installed; server_vad sessions are refused then")

    async def scene(target: Target) -> None:
        client = AsyncOpenAI(api_key="none", base_url=f"{server.url}/v1")
        vad: Any = None if detection is None else {"type": detection}
        pcm = {"type": "audio/pcm", "rate": 24_000}
        async with client.realtime.connect(model="tiny") as connection:
            audio: Any = {"input": {"format": pcm, "turn_detection": vad}, "output": {"format": pcm}}
            await connection.session.update(session={"type": "realtime", "audio": audio})
            usage, heard = 0, ""
            for _ in range(MAX_UNITS):
                await connection.input_audio_buffer.append(audio=loud(1000, 24_000))
                if detection is not None:
                    break  # a tone is no speech: nothing happens
                await connection.input_audio_buffer.commit()
                await connection.response.create()
                async for event in connection:
                    assert event.type != "error", event
                    if event.type == "response.output_audio.delta" and not heard:
                        heard = event.delta
                        await connection.response.cancel(response_id=event.response_id)
                    if event.type == "response.done":
                        assert event.response.usage is not None
                        usage = event.response.usage.output_tokens or 0
                        break
                if heard:
                    break
            if detection is None:
                assert heard
                assert usage > 0
            else:
                await connection.input_audio_buffer.clear()
                async for event in connection:
                    assert event.type not in ("error", "input_audio_buffer.speech_started"), event
                    if event.type == "input_audio_buffer.cleared":
                        break
        await client.close()

    server.play(scene)


def test_sessions_and_their_units_are_counted(server: Server) -> None:
    async def scene(target: Target) -> None:
        peer = await target.open({"extra_body": AUTO})
        await talk_until(peer, "response.output_audio.delta")
        async with httpx.AsyncClient() as client:
            text = (await client.get(f"{server.url}/metrics")).text
        assert re.search(r'antiphon:engine_state{model_name="tiny",name="realtime.sessions"} 1.0', text)
        for family in ("unit_decision_s", "unit_audio_s", "unit_late_s"):
            found = re.search(rf'antiphon:{family}_count{{model_name="tiny"}} (\S+)', text)
            assert found
            assert float(found.group(1)) > 0
        late = re.search(r'antiphon:unit_late_s_bucket{le="0.0",model_name="tiny"} (\S+)', text)
        assert late

    server.play(scene)


# What the scripted engine's own script decides cannot be asked of a random model.
NEEDS_NO_ANSWER = (1, 2, 3, 4, 5, 8, 9, 10)


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.number in NEEDS_NO_ANSWER], ids=lambda case: f"case{case.number}"
)
def test_conformance_cases_pass_or_find_a_model_that_listens(server: Server, case: Any) -> None:
    async def run() -> None:
        outcome = await run_case(case, Target(url=server.url.replace("http", "ws", 1), patience_s=3))
        assert outcome.verdict in (Verdict.PASSED, Verdict.SKIPPED), outcome.detail

    asyncio.run(run())


def test_sigterm_tells_the_sessions_and_waits_for_them(tiny_checkpoint: Path) -> None:
    command = [sys.executable, "-m", "antiphon", "serve", str(tiny_checkpoint), "--port", "0", "--device", "cpu"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    with subprocess.Popen(
        [*command, "--shutdown-timeout", "20"], stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stderr is not None
        url = ""
        for line in process.stderr:
            found = re.search(r"ws://localhost:\d+", line)
            url = found.group(0) if found else url
            if "API key" in line:
                break

        async def scene() -> None:
            target = Target(url=url)
            peer = await target.open({"extra_body": AUTO})
            await peer.append(loud(1000))
            await peer.until(lambda event: event["type"].startswith("response."), 60)
            process.send_signal(signal.SIGTERM)
            warning = await peer.get("session.warning", timeout_s=20)
            assert warning["code"] == "server_going_away"
            await peer.append(loud(1000))
            await peer.alive()
            await peer.send("session.close")
            await peer.get("session.closed", timeout_s=20)
            await target.finish(checks=True)

        asyncio.run(scene())
        assert process.wait(30) == 0
