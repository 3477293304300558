"""Sending one request: what is tried again, and what every kind of failure becomes."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from antiphon.bench.http_client import open_session, send
from antiphon.bench.settings import Backend, Target
from antiphon.bench.timeline import RequestRecord

EVENT = b'data: {"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n"

Serve = Callable[[asyncio.StreamWriter, int], Awaitable[None]]


def ask(serve: Serve, *, timeout_s: float = 5.0) -> RequestRecord:
    """Send one request to a server that answers its Nth connection by *serve(writer, N)*."""

    async def main() -> RequestRecord:
        num_connections = 0
        handlers: list[asyncio.Task[None] | None] = []

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal num_connections
            num_connections += 1
            await reader.readuntil(b"\r\n\r\n")
            handlers.append(asyncio.current_task())
            await serve(writer, num_connections)
            writer.close()
            await writer.wait_closed()

        server = await asyncio.start_server(connected, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        target = Target(base_url=f"http://127.0.0.1:{port}", endpoint="/v1/chat/completions")
        async with server, open_session(target, timeout_s) as session:
            loop = asyncio.get_running_loop()
            record = await send(
                session, target, Backend.CHAT_OMNI, {}, prompt_len_tokens=1, due_s=loop.time(), clock=loop.time
            )
            await asyncio.gather(*(handler for handler in handlers if handler), return_exceptions=True)
            return record

    return asyncio.run(main())


def test_a_whole_answer_is_read() -> None:
    async def serve(writer: asyncio.StreamWriter, number: int) -> None:
        writer.write(HEAD + b"\r\n" + EVENT)
        await writer.drain()

    found = ask(serve)
    assert (found.answer.error, found.answer.text, found.num_retries) == (None, "a", 0)
    assert 0 < found.answer.e2e_s < 5


def test_a_broken_connection_is_tried_again_with_a_new_start() -> None:
    async def serve(writer: asyncio.StreamWriter, number: int) -> None:
        if number > 2:
            writer.write(HEAD + b"\r\n" + EVENT)
            await writer.drain()

    found = ask(serve)
    assert (found.answer.error, found.num_retries) == (None, 2)
    assert found.started_s - found.due_s >= 0.2


def test_a_connection_that_always_breaks_fails_after_three_more_tries() -> None:
    async def serve(writer: asyncio.StreamWriter, number: int) -> None:
        writer.write(HEAD + b"Content-Length: 5000\r\n\r\n" + EVENT)
        await writer.drain()

    found = ask(serve)
    assert found.num_retries == 3
    assert found.answer.error is not None
    assert found.answer.error.startswith("ClientPayloadError")


def test_a_request_that_takes_too_long_has_failed_and_is_not_repeated() -> None:
    async def serve(writer: asyncio.StreamWriter, number: int) -> None:
        writer.write(HEAD + b"\r\n" + EVENT.split(b"data: [DONE]")[0])
        await writer.drain()
        await asyncio.sleep(0.2)

    found = ask(serve, timeout_s=0.1)
    assert (found.answer.error, found.num_retries) == ("timed out", 0)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"HTTP/1.1 400 Bad Request\r\nContent-Length: 4\r\n\r\nnope", "HTTP 400: nope"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}", "not a stream of events"),
    ],
)
def test_another_answer_is_told_as_it_is(answer: bytes, error: str) -> None:
    async def serve(writer: asyncio.StreamWriter, number: int) -> None:
        writer.write(answer)
        await writer.drain()

    found = ask(serve)
    assert found.answer.error is not None
    assert error in found.answer.error
    assert found.num_retries == 0
