"""Server-sent events, and the response that sends them until the client has gone."""

import asyncio
import json
from collections.abc import AsyncIterator

import anyio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

DONE = b"data: [DONE]\n\n"
HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


def event(body: bytes) -> bytes:
    """One event; JSON has no line breaks outside of strings, and none inside."""
    return b"data: " + body + b"\n\n"


def json_event(document: object) -> bytes:
    return event(json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode())


class LiveResponse(Response):
    """Sends pieces as they come. When the client goes, or reads nothing for too long, the source is cancelled.

    Args:
        pieces: the source; it is closed on every path.
        send_timeout_s: how long one piece may wait for the client to read.
    """

    def __init__(
        self,
        pieces: AsyncIterator[bytes],
        *,
        media_type: str,
        send_timeout_s: float,
        headers: dict[str, str] | None = None,
    ) -> None:
        self.status_code = 200
        self.media_type = media_type
        self.body = b""
        self.background = None
        self._pieces = pieces
        self._send_timeout_s = send_timeout_s
        self.init_headers(headers)
        self.raw_headers = [entry for entry in self.raw_headers if entry[0] != b"content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI's signature
        async with anyio.create_task_group() as group:
            group.start_soon(self._watch, receive, group.cancel_scope)
            await self._send_all(send)
            group.cancel_scope.cancel()

    async def _watch(self, receive: Receive, scope: anyio.CancelScope) -> None:
        await gone(receive)
        scope.cancel()

    async def _send_all(self, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            async for piece in self._pieces:
                await asyncio.wait_for(
                    send({"type": "http.response.body", "body": piece, "more_body": True}), self._send_timeout_s
                )
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except (asyncio.TimeoutError, OSError):
            return  # the client reads no more
        finally:
            with anyio.CancelScope(shield=True):
                await self._pieces.aclose()  # type: ignore[attr-defined]  # an asynchronous generator


async def gone(receive: Receive) -> None:
    """Return when the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
