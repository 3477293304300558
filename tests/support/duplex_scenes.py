"""What tests of duplex clients share: a scripted server, sound, and a way to run a scene on it."""

import asyncio
from collections.abc import Awaitable, Callable

from realtime_server import running

from antiphon.client import DuplexClient, EventCollector, SessionConfig, create_duplex_session_config
from antiphon.client.conformance.sounds import tone
from antiphon.client.duplex import DuplexClient as Client
from antiphon.client.transport import Transport, websocket_connect
from antiphon.realtime.script import DEFAULT_SCRIPT, Script
from antiphon.serving.realtime.hub import Hub
from antiphon.serving.realtime.scripted_app import scripted_hub
from antiphon.serving.realtime.settings import RealtimeSettings

ANSWER_BYTES = 4 * 48_000  # of the default script
ANSWER = "This is a scripted answer."
Scene = Callable[[Hub, str], Awaitable[None]]


def play(scene: Scene, script: Script = DEFAULT_SCRIPT, settings: RealtimeSettings | None = None) -> None:
    """Run *scene* against a scripted server; no session may be left behind."""

    async def run() -> None:
        hub = scripted_hub(script, settings)
        async with running(hub) as url:
            await asyncio.wait_for(scene(hub, url), 20)
            for _ in range(200):
                if hub.num_sessions == 0:
                    return
                await asyncio.sleep(0.01)
            raise AssertionError("a session was left behind")

    asyncio.run(run())


def speech(seconds: float, rate_hz: int = 16_000) -> bytes:
    """Loud PCM16."""
    return (tone(seconds * 1000, rate_hz) * 32767).astype("<i2").tobytes()


def silence(seconds: float) -> bytes:
    return bytes(2 * round(seconds * 16_000))


def preset(**fields: object) -> SessionConfig:
    return create_duplex_session_config(**fields)


class KeptConnect:
    """A `connect=` that keeps every connection it made, and may be told to fail."""

    def __init__(self) -> None:
        self.made: list[Transport] = []
        self._connect = websocket_connect({}, 5.0)

    async def __call__(self, url: str) -> Transport:
        self.made.append(await self._connect(url))
        return self.made[-1]


async def ask(client: Client, seconds: float = 1.5) -> None:
    await client.stream_pcm(speech(seconds), realtime=False)
    await client.commit()


async def collected(client: Client) -> tuple[EventCollector, "asyncio.Task[None]"]:
    collector = EventCollector()
    task = asyncio.create_task(collector.consume(client))
    await asyncio.sleep(0)
    return collector, task


__all__ = [
    "ANSWER",
    "ANSWER_BYTES",
    "DuplexClient",
    "KeptConnect",
    "ask",
    "collected",
    "play",
    "preset",
    "silence",
    "speech",
]
