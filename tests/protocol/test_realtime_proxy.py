"""The stand-alone page's proxy: what it hands through, what it refuses, and that nothing piles up in it."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx
import pytest
import uvicorn
from realtime_server import running
from starlette.applications import Starlette
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed, InvalidStatus

from antiphon.serving.realtime import proxy
from antiphon.serving.realtime.proxy import Tunnels, parse_upstream, proxy_app
from antiphon.serving.realtime.routes import UVICORN_OPTIONS
from antiphon.serving.realtime.scripted_app import scripted_hub, scripted_settings

QUERY = "/v1/realtime?duplex=1&autostart=0"
OPEN = json.dumps({"type": "session.update", "session": {"extra_body": {"auto_response": True}}})


@asynccontextmanager
async def listening(app: Starlette) -> AsyncIterator[str]:
    """Serve *app*; gives host and port."""
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", **UVICORN_OPTIONS))
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    host, port = server.servers[0].sockets[0].getsockname()
    try:
        yield f"{host}:{port}"
    finally:
        server.should_exit = True
        await task


def play(scene: Callable[[str, str], Coroutine[Any, Any, None]], settings: Any = None, **options: Any) -> None:
    """Run *scene* with the addresses of the proxy and of the scripted server behind it."""

    async def run() -> None:
        hub = scripted_hub(settings=settings)
        async with running(hub) as url, listening(proxy_app(parse_upstream(url), **options)) as front:
            await asyncio.wait_for(scene(front, url), 20)

    asyncio.run(run())


async def refused(address: str, **options: Any) -> InvalidStatus:
    with pytest.raises(InvalidStatus) as caught:
        await connect(address, **options)
    return caught.value


def test_a_session_goes_through_and_its_close_comes_back() -> None:
    async def scene(front: str, url: str) -> None:
        async with connect(f"ws://{front}{QUERY}") as socket:
            await socket.send(OPEN)
            assert json.loads(await socket.recv())["type"] == "session.created"
            await socket.send(json.dumps({"type": "session.close"}))
            types = [json.loads(frame)["type"] async for frame in socket]
        assert types[-1] == "session.closed"
        assert socket.close_code == 1000
        assert socket.close_reason == "client_close"

    play(scene)


def test_the_page_is_at_both_addresses_and_questions_are_handed_on() -> None:
    async def scene(front: str, url: str) -> None:
        async with httpx.AsyncClient(base_url=f"http://{front}") as client:
            for path in ("/", "/live"):
                page = await client.get(path)
                assert "Antiphon live" in page.text
                assert "default-src 'self'" in page.headers["content-security-policy"]
            assert (await client.get("/v1/models")).json()["data"][0]["id"] == "scripted"
            assert (await client.get("/health")).status_code == 200

    play(scene)


def test_keys_are_handed_on_as_header_and_as_subprotocol_and_never_echoed() -> None:
    async def scene(front: str, url: str) -> None:
        error = await refused(f"ws://{front}{QUERY}")
        assert error.response.status_code == 401
        assert b"API key" in error.response.body
        async with connect(f"ws://{front}{QUERY}", additional_headers={"Authorization": "Bearer secret"}) as socket:
            await socket.send(OPEN)
            assert json.loads(await socket.recv())["type"] == "session.created"
        names = ["realtime", "openai-insecure-api-key.secret"]
        async with connect(f"ws://{front}{QUERY}", subprotocols=names) as socket:
            assert socket.subprotocol == "realtime"
        async with httpx.AsyncClient(base_url=f"http://{front}") as client:
            assert (await client.get("/v1/models")).status_code == 401
            answer = await client.get("/v1/models", headers={"Authorization": "Bearer secret"})
            assert answer.status_code == 200

    play(scene, replace(scripted_settings(), api_keys=("secret",)))


def test_the_origin_is_checked_here_and_rewritten_for_the_server() -> None:
    # The server allows its own Origin only, and would refuse the page's.
    async def scene(front: str, url: str) -> None:
        async with connect(f"ws://{front}{QUERY}", origin=f"http://{front}") as socket:
            await socket.send(OPEN)
            assert json.loads(await socket.recv())["type"] == "session.created"
        assert (await refused(f"{url}{QUERY}", origin=f"http://{front}")).response.status_code == 403
        assert (await refused(f"ws://{front}{QUERY}", origin="http://evil.example")).response.status_code == 403

    play(scene)


def test_no_more_sessions_go_through_than_allowed() -> None:
    async def scene(front: str, url: str) -> None:
        async with connect(f"ws://{front}{QUERY}"):
            assert (await refused(f"ws://{front}{QUERY}")).response.status_code == 503

    play(scene, max_sessions=1)


def test_a_server_that_is_not_there_is_a_502() -> None:
    async def run() -> None:
        async with listening(proxy_app(parse_upstream("ws://127.0.0.1:1"))) as front:
            assert (await refused(f"ws://{front}{QUERY}")).response.status_code == 502
            async with httpx.AsyncClient(base_url=f"http://{front}") as client:
                assert (await client.get("/health")).status_code == 502

    asyncio.run(run())


def test_a_client_that_reads_nothing_stops_the_server_and_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy, "_WRITE_S", 0.5)
    frame, num_sent = "x" * 2**18, 0

    async def run() -> None:
        is_over = asyncio.Event()

        async def flood(connection: ServerConnection) -> None:
            nonlocal num_sent
            try:
                while num_sent < 2000:
                    await connection.send(frame)
                    num_sent += 1
            except ConnectionClosed:
                is_over.set()

        async with serve(flood, "127.0.0.1", 0, compression=None) as server:
            port = server.sockets[0].getsockname()[1]
            async with listening(proxy_app(parse_upstream(f"ws://127.0.0.1:{port}"))) as front:
                reader, writer = await asyncio.open_connection(*front.split(":"), limit=2**16)
                writer.write(
                    f"GET {QUERY} HTTP/1.1\r\nHost: {front}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
                )
                try:
                    assert b"101" in await reader.readline()
                    await asyncio.wait_for(is_over.wait(), 10)
                finally:
                    writer.transport.abort()

    asyncio.run(run())
    assert num_sent < 200


def test_the_tunnel_gives_its_place_back(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Tunnels] = []
    make = Tunnels.__init__

    def remember(self: Tunnels, *arguments: Any) -> None:
        make(self, *arguments)
        kept.append(self)

    monkeypatch.setattr(Tunnels, "__init__", remember)

    async def scene(front: str, url: str) -> None:
        for _ in range(20):
            socket = await connect(f"ws://{front}{QUERY}")
            await socket.send(OPEN)
            socket.transport.abort()
        for _ in range(300):
            if kept[0].num_open == 0:
                return
            await asyncio.sleep(0.01)
        raise AssertionError("a tunnel was left open")

    play(scene)
