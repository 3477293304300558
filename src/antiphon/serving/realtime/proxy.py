"""The live page by itself, in front of a Realtime server elsewhere: sockets are handed through, one upstream each.

Nothing piles up here: each direction has one frame in hand, and whoever reads slowly slows the other side's socket. The
server sees its own Origin, so the page's is checked here. Keys are handed on and never kept.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, WebSocketException
from websockets.typing import Origin, Subprotocol

from antiphon.core.errors import ConfigError
from antiphon.serving.pages import live_routes
from antiphon.serving.realtime.gate import Gate
from antiphon.serving.realtime.settings import RealtimeSettings

MAX_FRAME_BYTES = 64 * 2**20  # what clients of the protocol take
MAX_ANSWER_BYTES = 2**20
_WAITING_FRAMES = 16  # read ahead from the server
_OPEN_S = 200.0  # a server that warms up holds its sockets for 180 s
_WRITE_S = 10.0
_CLOSE_S = 2.0
_ANSWER_S = 10.0
_TRY_LATER, _INTERNAL = 1013, 1011
_NOT_SENDABLE = {1005, 1006, 1015}  # they only say that there was no close frame
_PASSED_HEADERS = ("authorization", "openai-beta", "user-agent")
_PASSED_PATHS = ("/v1/models", "/health")


@dataclass(frozen=True)
class Upstream:
    """The server behind: its WebSocket base such as `ws://127.0.0.1:8099`, without a trailing slash."""

    base: str

    @property
    def http_base(self) -> str:
        return "http" + self.base.removeprefix("ws")

    @property
    def origin(self) -> Origin:
        parts = urlsplit(self.http_base)
        return Origin(f"{parts.scheme}://{parts.netloc}")


def parse_upstream(address: str) -> Upstream:
    """From what people type: `ws://`, `wss://`, `http://` or `https://`, a host, and perhaps a path in front of `/v1`.

    Raises:
        ConfigError: it is no such address.
    """
    base = "ws" + address.removeprefix("http") if address.startswith("http") else address
    parts = urlsplit(base)
    try:
        is_usable = parts.scheme in ("ws", "wss") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable or parts.query or parts.fragment or parts.username:
        raise ConfigError(f"{address!r} is no address of a server; give one such as ws://127.0.0.1:8099")
    return Upstream(base.rstrip("/").removesuffix("/v1/realtime").removesuffix("/v1"))


def proxy_app(upstream: Upstream, *, allowed_origins: Sequence[str] = (), max_sessions: int = 64) -> Starlette:
    """The page at `/` and `/live`, and what it asks of the server, handed through."""
    gate = Gate(RealtimeSettings(allowed_origins=tuple(allowed_origins)))
    tunnels = Tunnels(upstream, gate, max_sessions)
    answers = Answers(upstream)
    return Starlette(
        routes=[
            WebSocketRoute("/v1/realtime", tunnels.serve),
            *(Route(path, answers.pass_on) for path in _PASSED_PATHS),
            *live_routes(is_front=True),
        ]
    )


class Answers:
    """The two small questions that the page asks over HTTP."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    async def pass_on(self, request: Request) -> Response:
        headers = {name: request.headers[name] for name in _PASSED_HEADERS if name in request.headers}
        url = self._upstream.http_base + request.url.path
        content = bytearray()
        try:
            async with (
                httpx.AsyncClient(timeout=_ANSWER_S) as client,
                client.stream("GET", url, headers=headers) as answer,
            ):
                async for piece in answer.aiter_bytes():
                    content += piece
                    if len(content) > MAX_ANSWER_BYTES:
                        return _problem(502, "the server's answer is too long")
                return Response(bytes(content), answer.status_code, media_type=answer.headers.get("content-type"))
        except httpx.HTTPError:
            return _problem(502, "the server behind this page does not answer")


class Tunnels:
    """All sockets that are handed through."""

    def __init__(self, upstream: Upstream, gate: Gate, max_sessions: int) -> None:
        self._upstream = upstream
        self._gate = gate
        self._max_sessions = max_sessions
        self.num_open = 0

    async def serve(self, websocket: WebSocket) -> None:
        address = websocket.client.host if websocket.client is not None else ""
        denial = self._gate.check(websocket.headers, (), address, asyncio.get_running_loop().time())
        if denial is not None:
            await websocket.send_denial_response(_problem(denial.status, denial.message))
        elif self.num_open >= self._max_sessions:
            await websocket.send_denial_response(_problem(503, "too many sessions go through this page"))
        else:
            self.num_open += 1
            try:
                await self._tunnel(websocket)
            finally:
                self.num_open -= 1

    async def _tunnel(self, websocket: WebSocket) -> None:
        # The server is asked first: what it refuses is refused here in its own words.
        try:
            connection = await self._connect(websocket)
        except InvalidStatus as error:
            answer = error.response
            media_type = answer.headers.get("Content-Type", "text/plain")
            await websocket.send_denial_response(
                Response(bytes(answer.body or b""), answer.status_code, media_type=media_type)
            )
        except (OSError, asyncio.TimeoutError, InvalidHandshake, WebSocketException):
            await websocket.send_denial_response(_problem(502, "the server behind this page does not answer"))
        else:
            async with connection:
                await websocket.accept(connection.subprotocol)
                await _hand_through(websocket, connection)

    async def _connect(self, websocket: WebSocket) -> ClientConnection:
        query = websocket.url.query
        offered = [Subprotocol(name) for name in websocket.scope.get("subprotocols", [])]
        return await connect(
            f"{self._upstream.base}/v1/realtime" + (f"?{query}" if query else ""),
            origin=self._upstream.origin,
            additional_headers=[
                (name, websocket.headers[name]) for name in _PASSED_HEADERS if name in websocket.headers
            ],
            user_agent_header=None,
            subprotocols=offered or None,
            compression=None,
            open_timeout=_OPEN_S,
            close_timeout=_CLOSE_S,
            max_size=MAX_FRAME_BYTES,
            max_queue=_WAITING_FRAMES,
        )


async def _hand_through(websocket: WebSocket, connection: ClientConnection) -> None:
    """Until either side has closed; the other is closed with the same words."""
    up = asyncio.create_task(_client_to_server(websocket, connection))
    down = asyncio.create_task(_server_to_client(websocket, connection))
    try:
        await asyncio.wait({up, down}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (up, down):
            task.cancel()
        await asyncio.gather(up, down, return_exceptions=True)


async def _client_to_server(websocket: WebSocket, connection: ClientConnection) -> None:
    try:
        while True:
            message = await websocket.receive()
            if message["type"] == "websocket.disconnect":
                code = message.get("code") or _INTERNAL
                await connection.close(1000 if code in _NOT_SENDABLE else code, message.get("reason") or "")
                return
            text = message.get("text")
            await asyncio.wait_for(connection.send(message["bytes"] if text is None else text), _WRITE_S)
    except (ConnectionClosed, asyncio.TimeoutError):
        # The server's close frame, if there is one, still has to reach the client.
        await asyncio.wait_for(connection.wait_closed(), _WRITE_S)
        await _close_client(websocket, connection)


async def _server_to_client(websocket: WebSocket, connection: ClientConnection) -> None:
    try:
        async for frame in connection:
            sending = websocket.send_text(frame) if isinstance(frame, str) else websocket.send_bytes(frame)
            await asyncio.wait_for(sending, _WRITE_S)
    except ConnectionClosed:
        pass  # its code is read below
    except (WebSocketDisconnect, asyncio.TimeoutError, OSError, RuntimeError):
        await connection.close(_TRY_LATER, "the client reads too slowly")
        return
    await _close_client(websocket, connection)


async def _close_client(websocket: WebSocket, connection: ClientConnection) -> None:
    code = connection.close_code or _INTERNAL
    with suppress(WebSocketDisconnect, RuntimeError, OSError):
        await websocket.close(_TRY_LATER if code in _NOT_SENDABLE else code, connection.close_reason or "")


def _problem(status: int, message: str) -> JSONResponse:
    return JSONResponse({"error": {"type": "invalid_request_error", "code": None, "message": message}}, status)
