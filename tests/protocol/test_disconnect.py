"""Clients that go away, and clients that do not read."""

import asyncio
import json
import logging
from typing import Any

import pytest

from antiphon.pipeline.events import TextDelta

Server = Any


class Visitor:
    """Speaks ASGI by hand, so that it can leave at any moment."""

    def __init__(self, app: Any, body: dict[str, object], path: str = "/v1/chat/completions") -> None:
        self.sent: list[dict[str, Any]] = []
        self.sent_some = asyncio.Event()
        self.reads = asyncio.Event()
        self.reads.set()
        self._left = asyncio.Event()
        self._content = [json.dumps(body).encode()]
        scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [(b"content-type", b"application/json")],
            "http_version": "1.1",
            "scheme": "http",
        }
        self.task = asyncio.ensure_future(app(scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        if self._content:
            return {"type": "http.request", "body": self._content.pop(), "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        await self.reads.wait()
        self.sent.append(message)
        if message.get("body"):
            self.sent_some.set()

    async def leave(self) -> None:
        self._left.set()
        await asyncio.wait_for(self.task, 5)


def body(**fields: object) -> dict[str, object]:
    return {"messages": [{"role": "user", "content": "Hi"}], **fields}


async def until(condition: Any) -> None:
    for _ in range(500):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never happened")


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/audio/speech"])
def test_c94_leaving_before_the_first_event_aborts_the_request(server: Server, is_streamed: bool, path: str) -> None:
    server.pipeline.events, server.pipeline.holds = [], True
    fields = body(stream=is_streamed) if "chat" in path else {"input": "Hi", "stream": is_streamed}

    async def run() -> None:
        visitor = Visitor(server.app, fields, path)
        await until(lambda: server.pipeline.requests)
        await visitor.leave()

    asyncio.run(run())
    assert server.pipeline.aborted == [server.pipeline.requests[0].request_id]


@pytest.mark.parametrize("events", [1, 2])
def test_c94_leaving_between_text_and_audio_aborts_the_request(server: Server, events: int) -> None:
    server.pipeline.events, server.pipeline.holds = server.pipeline.events[:events], True

    async def run() -> None:
        visitor = Visitor(server.app, body(stream=True))
        await until(lambda: sum(b"delta" in part.get("body", b"") for part in visitor.sent) > events)
        assert server.pipeline.aborted == []
        await visitor.leave()

    asyncio.run(run())
    assert len(server.pipeline.aborted) == 1


def test_c94_leaving_during_media_reads_nothing_more(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    started = asyncio.Event()

    async def slow(*_: object) -> bytes:
        started.set()
        await asyncio.sleep(60)
        return b""

    monkeypatch.setattr("antiphon.serving.media_fetch.MediaFetcher.fetch", slow)
    part = {"type": "image_url", "image_url": {"url": "http://a.example/"}}

    async def run() -> None:
        visitor = Visitor(server.app, {"messages": [{"role": "user", "content": [part]}]})
        await asyncio.wait_for(started.wait(), 5)
        await visitor.leave()

    asyncio.run(run())
    assert server.pipeline.requests == []


def test_c94_leaving_after_the_end_is_no_abort(server: Server) -> None:
    async def run() -> None:
        visitor = Visitor(server.app, body(stream=True))
        await asyncio.wait_for(visitor.task, 5)
        await visitor.leave()

    asyncio.run(run())
    assert server.pipeline.aborted == []


def test_c94_two_hundred_departures_leave_nothing_behind(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    server.pipeline.holds = True
    lifecycle = server.services.lifecycle

    async def run() -> None:
        app = server.app
        for number in range(200):
            visitor = Visitor(app, body(stream=number % 2 == 0))
            if number % 3:
                await until(lambda count=number: len(server.pipeline.requests) > count)
            await visitor.leave()
            server.pipeline.requests += [None] * (number + 1 - len(server.pipeline.requests))
        assert lifecycle.num_in_flight == 0
        assert len(asyncio.all_tasks()) == 1

    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
    assert not caplog.records
    assert len(server.pipeline.aborted) == len(server.pipeline.outputs)


def test_c96_a_client_that_does_not_read_is_given_up(server: Server) -> None:
    server.configure(send_timeout_s=0.05)
    server.pipeline.holds = True

    async def run() -> None:
        visitor = Visitor(server.app, body(stream=True))
        await asyncio.wait_for(visitor.sent_some.wait(), 5)
        visitor.reads.clear()
        server.pipeline.outputs[server.pipeline.requests[0].request_id].push(TextDelta("more"))
        await asyncio.wait_for(visitor.task, 5)

    asyncio.run(run())
    assert len(server.pipeline.aborted) == 1


def test_c100_draining_waits_for_what_is_in_flight(server: Server) -> None:
    server.pipeline.holds = True
    lifecycle = server.services.lifecycle

    async def run() -> None:
        visitor = Visitor(server.app, body(stream=True))
        await until(lambda: server.pipeline.requests)
        assert await lifecycle.drain(0.05) is False
        drained = asyncio.ensure_future(lifecycle.drain(5))
        await asyncio.sleep(0)
        await visitor.leave()
        assert await drained is True

    asyncio.run(run())
