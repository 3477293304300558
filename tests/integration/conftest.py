"""A small real HTTP server that answers as a chat server with speech does, for clients that know the wire only."""

import asyncio
import base64
import io
import json
import threading
import time
import wave
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

RATE_HZ = 24_000
WORDS = ("The ", "sea ", "is ", "calm.")


def wav_bytes(duration_s: float) -> bytes:
    """A mono 16-bit WAV of a quiet tone."""
    samples = (3000 * np.sin(np.arange(round(duration_s * RATE_HZ)) / 12)).astype("<i2")
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(RATE_HZ)
        writer.writeframes(samples.tobytes())
    return file.getvalue()


@dataclass
class FakeServer:
    """Says "The sea is calm." and, if audio is asked for, three chunks of half a second.

    Attributes:
        shape: "vllm-omni" (`modality` and `delta.content`) or "openai" (`delta.audio.data`, raw PCM).
        gap_s: wait before each event.
        fail_every: every so many requests are answered with a 500; 0: none.
        bodies: what was asked, in order.
    """

    port: int = 0
    shape: str = "vllm-omni"
    gap_s: float = 0.0
    fail_every: int = 0
    api_key: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    num_under_way: int = 0
    most_under_way: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/v1/chat/completions", self._chat, methods=["POST"]),
                Route("/v1/audio/speech", self._speech, methods=["POST"]),
                Route("/v1/models", self._models),
                Route("/health", lambda request: JSONResponse({"status": "healthy"})),
                Route("/version", lambda request: JSONResponse({"version": "fake", "switches": {"graphs": True}})),
                Route("/metrics", self._metrics),
            ]
        )

    async def _models(self, request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [{"id": "fake-model", "object": "model"}]})

    async def _metrics(self, request: Request) -> Response:
        count = len(self.bodies)
        return PlainTextResponse(f'antiphon:graph_hits_total{{stage="0"}} {count}\nother_total {count}\n')

    async def _chat(self, request: Request) -> Response:
        if self.api_key and request.headers.get("authorization") != f"Bearer {self.api_key}":
            return JSONResponse({"error": "Unauthorized"}, 401)
        body = await request.json()
        self.bodies.append(body)
        if self.fail_every and len(self.bodies) % self.fail_every == 0:
            return JSONResponse({"error": {"message": "planted"}}, 500)
        has_audio = "audio" in (body.get("modalities") or ["text", "audio"])
        if not body.get("stream"):
            message: dict[str, object] = {"role": "assistant", "content": "".join(WORDS)}
            if has_audio:
                message["audio"] = {"id": "audio-1", "data": base64.b64encode(wav_bytes(1.5)).decode()}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            return JSONResponse({"object": "chat.completion", "model": "fake-model", "choices": [choice]})
        return StreamingResponse(self._events(has_audio), media_type="text/event-stream")

    async def _events(self, has_audio: bool) -> AsyncIterator[bytes]:
        self.num_under_way += 1
        self.most_under_way = max(self.most_under_way, self.num_under_way)
        try:
            for chunk in self._chunks(has_audio):
                await asyncio.sleep(self.gap_s)
                yield f"data: {json.dumps(chunk)}\n\n".encode()
            yield b"data: [DONE]\n\n"
        finally:
            self.num_under_way -= 1

    def _chunks(self, has_audio: bool) -> Iterator[dict[str, object]]:
        is_openai = self.shape == "openai"

        def chunk(delta: dict[str, object], modality: str, tokens: int, reason: str | None = None) -> dict[str, object]:
            found: dict[str, object] = {
                "object": "chat.completion.chunk",
                "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
            }
            if modality:
                found["modality"] = modality
            if not is_openai:
                found["usage"] = {"prompt_tokens": 7, "completion_tokens": tokens}
            return found

        yield chunk({"role": "assistant", "content": ""}, "text", 0)
        for place, word in enumerate(WORDS, start=1):
            yield chunk({"content": word}, "text", place)
        for _ in range(3 if has_audio else 0):
            sound = wav_bytes(0.5)
            if is_openai:
                yield chunk({"audio": {"id": "a", "data": base64.b64encode(sound[44:]).decode()}}, "audio", 0)
            else:
                yield chunk({"role": "assistant", "content": base64.b64encode(sound).decode()}, "audio", 0)
        yield chunk({}, "audio" if has_audio else "text", 0, "stop")
        yield {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": len(WORDS)}}

    async def _speech(self, request: Request) -> Response:
        self.bodies.append(await request.json())
        return StreamingResponse(self._speech_bytes(), media_type="audio/pcm")

    async def _speech_bytes(self) -> AsyncIterator[bytes]:
        for _ in range(3):
            await asyncio.sleep(self.gap_s)
            yield wav_bytes(0.5)[44:]


@pytest.fixture
def fake_server() -> Iterator[FakeServer]:
    """A FakeServer that listens on a free port; change its attributes before asking."""
    fake = FakeServer()
    config = uvicorn.Config(fake.app(), host="127.0.0.1", port=0, log_level="error", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        thread.join(0.01)
        assert thread.is_alive(), "the fake server did not start"
    fake.port = server.servers[0].sockets[0].getsockname()[1]
    yield fake
    server.should_exit = True
    thread.join(5)


@pytest.fixture(scope="session")
def listen() -> Callable[[Any], AbstractContextManager[str]]:
    """Runs an application under uvicorn on a free port of this machine; gives its address."""

    @contextmanager
    def run(app: Any) -> Iterator[str]:
        server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, access_log=False))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(10)

    return run
