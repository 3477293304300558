"""A client of the Realtime edge without a network: the application's own receive and send, in this process."""

import asyncio
import json
from typing import Any
from urllib.parse import urlencode

from starlette.websockets import WebSocket

from antiphon.serving.realtime.gate import Gate
from antiphon.serving.realtime.hub import Hub
from antiphon.serving.realtime.socket import Socket

Event = dict[str, Any]


class Wire:
    """One connection, served by a task of its own. What the server sends is parsed when it is asked for."""

    def __init__(self, hub: Hub, gate: Gate, *, subprotocol: str | None = None, **query: str) -> None:
        self._to_server: asyncio.Queue[Event] = asyncio.Queue()
        self._from_server: asyncio.Queue[Event] = asyncio.Queue()
        self.status: int | None = None  # of a refused upgrade
        scope = {
            "type": "websocket",
            "path": "/v1/realtime",
            "query_string": urlencode(query).encode(),
            "headers": [],
            "subprotocols": [] if subprotocol is None else [subprotocol],
            "client": ("127.0.0.1", 1),
            "extensions": {"websocket.http.response": {}},
        }
        self._to_server.put_nowait({"type": "websocket.connect"})
        websocket = WebSocket(scope, self._to_server.get, self._send)
        self.task = asyncio.create_task(Socket(websocket, hub, gate, is_alias=False).serve(), name="socket")

    async def _send(self, message: Event) -> None:
        if message["type"] == "websocket.http.response.start":
            self.status = message["status"]
        self._from_server.put_nowait(message)

    def send(self, type_: str, **fields: object) -> None:
        self.send_text(json.dumps({"type": type_, **fields}))

    def send_text(self, text: str) -> None:
        self._to_server.put_nowait({"type": "websocket.receive", "text": text})

    async def until(self, *wanted: str) -> Event:
        """The next event of one of those types, all others skipped."""
        starts = tuple(f'{{"type":"{kind}"' for kind in wanted)
        while True:
            message = await asyncio.wait_for(self._from_server.get(), 30)
            assert message["type"] in ("websocket.accept", "websocket.send"), (wanted, message)
            if message["type"] == "websocket.send" and message["text"].startswith(starts):
                event: Event = json.loads(message["text"])
                return event

    async def closed(self) -> int:
        """Read to the end; gives the close code."""
        while (message := await asyncio.wait_for(self._from_server.get(), 30))["type"] != "websocket.close":
            pass
        return int(message["code"])

    async def cut(self) -> None:
        """The connection is gone, as the server sees it."""
        self._to_server.put_nowait({"type": "websocket.disconnect", "code": 1006})
        await self.task
