"""The Realtime routes, to be mounted by an application, and what its server must be told."""

from collections.abc import Callable
from typing import TypedDict

from starlette.routing import BaseRoute, WebSocketRoute
from starlette.websockets import WebSocket

from antiphon.core.ids import RandomIds
from antiphon.realtime.engine import DuplexEngine
from antiphon.serving.realtime.gate import Gate
from antiphon.serving.realtime.hub import Hub
from antiphon.serving.realtime.recording import SessionRecorder
from antiphon.serving.realtime.settings import RealtimeSettings
from antiphon.serving.realtime.socket import Socket

# For uvicorn. The library's own limit lies above the protocol's 15 MiB, so that an oversized event is answered instead
# of cutting the socket; deflate costs more than base64 audio saves; pongs may be late behind a busy client.


class UvicornOptions(TypedDict):
    ws_max_size: int
    ws_per_message_deflate: bool
    ws_ping_interval: float
    ws_ping_timeout: float


UVICORN_OPTIONS: UvicornOptions = {
    "ws_max_size": 17 * 2**20,
    "ws_per_message_deflate": False,
    "ws_ping_interval": 20.0,
    "ws_ping_timeout": 60.0,
}


def realtime_hub(
    engine: DuplexEngine, settings: RealtimeSettings, *, has_room: Callable[[], bool] = lambda: True
) -> Hub:
    """The sessions behind the routes. Call it on the event loop; `Hub.drain` ends them.

    *has_room* as in `Admission`.
    """
    return Hub(engine, settings, RandomIds(), has_room=has_room)


def realtime_routes(hub: Hub) -> list[BaseRoute]:
    """`/v1/realtime`, and `/v1/duplex` as its alias.

    Raises:
        ConfigError: the folder for traces cannot be written.
    """
    gate = Gate(hub.settings)
    folder = hub.settings.record_folder
    recorder = None if folder is None else SessionRecorder(folder)

    async def realtime(websocket: WebSocket) -> None:
        await Socket(websocket, hub, gate, is_alias=False, recorder=recorder).serve()

    async def duplex(websocket: WebSocket) -> None:
        await Socket(websocket, hub, gate, is_alias=True, recorder=recorder).serve()

    return [WebSocketRoute("/v1/realtime", realtime), WebSocketRoute("/v1/duplex", duplex)]
