"""A Realtime session of OpenAI's own SDK against a scripted server; every event is checked against the SDK's models."""

import asyncio
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
from openai import AsyncOpenAI
from openai.resources.realtime.realtime import AsyncRealtimeConnection
from openai.types.realtime import RealtimeServerEvent
from pydantic import TypeAdapter
from realtime_server import running, settings_of

from antiphon.client.conformance.invariants import check_events
from antiphon.realtime.script import DEFAULT_SCRIPT, Script, tone
from antiphon.serving.realtime.hub import Hub
from antiphon.serving.realtime.scripted_app import scripted_hub

RATE_HZ = 24_000
PUSH_TO_TALK: dict[str, Any] = {
    "type": "realtime",
    "output_modalities": ["audio"],
    "audio": {
        "input": {"format": {"type": "audio/pcm", "rate": RATE_HZ}, "turn_detection": None},
        "output": {"format": {"type": "audio/pcm", "rate": RATE_HZ}, "voice": "marin"},
    },
}
_STRICT: TypeAdapter[Any] = TypeAdapter(RealtimeServerEvent)


def loud(duration_ms: int) -> str:
    return _encode(tone(duration_ms, RATE_HZ))


def quiet(duration_ms: int) -> str:
    return _encode(np.zeros(duration_ms * RATE_HZ // 1000, np.float32))


def _encode(samples: np.ndarray) -> str:
    return b64encode((samples * 32767).astype("<i2").tobytes()).decode()


class Talk:
    """One connection, and everything that came over it."""

    def __init__(self, connection: AsyncRealtimeConnection) -> None:
        self.connection = connection
        self.events: list[Any] = []
        self.frames: list[str] = []  # the same, as they came

    async def get(self, wanted: str, timeout_s: float = 8.0) -> Any:
        """The next event of that type; an error that is not wanted fails the test."""
        return (await self.until(wanted, timeout_s))[-1]

    async def until(self, wanted: str, timeout_s: float = 8.0) -> list[Any]:
        start = len(self.events)

        async def receive() -> None:
            while True:
                event = await self._receive()
                if event.type == wanted:
                    return
                assert event.type != "error", event

        try:
            await asyncio.wait_for(receive(), timeout_s)
        except asyncio.TimeoutError:
            raise AssertionError(f"no {wanted}; came {self.types(self.events[start:])}") from None
        return self.events[start:]

    async def pause(self, duration_s: float) -> list[Any]:
        """What comes within that time."""
        start, end = len(self.events), asyncio.get_running_loop().time() + duration_s
        while (left := end - asyncio.get_running_loop().time()) > 0:
            try:
                await asyncio.wait_for(self._receive(), left)
            except asyncio.TimeoutError:
                break
        return self.events[start:]

    async def say(self, duration_ms: int, silence_ms: int = 0) -> None:
        """An open microphone: pieces of 200 ms, as fast as they are taken."""
        for _ in range(duration_ms // 200):
            await self.connection.input_audio_buffer.append(audio=loud(200))
        for _ in range(silence_ms // 200):
            await self.connection.input_audio_buffer.append(audio=quiet(200))

    async def error(self, code: str) -> Any:
        event = await self.get("error")
        assert event.error.code == code, event
        return event

    def audio_bytes(self, response_id: str) -> int:
        deltas = self.of_type("response.output_audio.delta")
        return sum(len(b64decode(event.delta)) for event in deltas if event.response_id == response_id)

    def of_type(self, wanted: str) -> list[Any]:
        return [event for event in self.events if event.type == wanted]

    @staticmethod
    def types(events: list[Any]) -> list[str]:
        return [event.type for event in events]

    async def _receive(self) -> Any:
        body = await self.connection.recv_bytes()
        event = _STRICT.validate_json(body)
        assert type(self.connection.parse_event(body)) is type(event)
        self.events.append(event)
        self.frames.append(body.decode())
        return event


Scene = Callable[[Talk], Awaitable[None]]


@asynccontextmanager
async def served(script: Script = DEFAULT_SCRIPT, profile: str = "default") -> AsyncIterator[tuple[str, Hub]]:
    """A scripted server; gives its HTTP address. No session may be left behind."""
    hub = scripted_hub(script, settings_of(profile))
    async with running(hub) as url:
        yield url.replace("ws://", "http://") + "/v1", hub
        for _ in range(300):
            if hub.num_sessions == 0 and hub.admission.num_taken == 0:
                break
            await asyncio.sleep(0.01)
        assert hub.num_sessions == 0, "a session was left behind"


def play(scene: Scene, script: Script = DEFAULT_SCRIPT, key: str = "none", profile: str = "default") -> Talk:
    """Run *scene* over the SDK's connection, and check what came as a whole."""

    async def run() -> Talk:
        async with served(script, profile) as (base_url, _):
            client = AsyncOpenAI(base_url=base_url, api_key=key)
            async with client.realtime.connect(model="minicpm-o-4.5") as connection:
                talk = Talk(connection)
                created = await talk.get("session.created")
                assert created.session.model == "minicpm-o-4.5"
                await asyncio.wait_for(scene(talk), 30)
            await client.close()
        return talk

    talk = asyncio.run(run())
    check_events([event.model_dump(exclude_unset=True) for event in talk.events])
    return talk
