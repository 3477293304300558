"""The key on every door. What is open without one is a short list of exact paths; everything else is shut."""

import hmac
from collections.abc import Sequence
from hashlib import sha256

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from antiphon.serving.errors import Problem, error_document
from antiphon.serving.pages import LIVE_FACTS_PATH, LIVE_PAGES

# Health probes, and the pages with what they are made of: they hold nothing, and let one type the key in.
OPEN_PATHS = frozenset(
    {"/", "/app.js", *LIVE_PAGES, LIVE_FACTS_PATH, "/health", "/health/live", "/health/ready", "/ping"}
)
_SUBPROTOCOL = "openai-insecure-api-key."  # how browsers bring a key to a WebSocket
_UNAUTHORIZED = Problem(
    401, "AuthenticationError", "Unauthorized: give the server's API key as 'Authorization: Bearer …'."
)


class KeyRing:
    """The accepted keys, as digests."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._digests = tuple(sha256(key.encode()).digest() for key in keys)

    def accepts(self, key: str) -> bool:
        """Whether *key* is one of them; takes the same time whichever it is, and if none is."""
        digest = sha256(key.encode("utf-8", "surrogateescape")).digest()
        return sum(hmac.compare_digest(digest, known) for known in self._digests) > 0  # all are compared


class RequireKey:
    """Answers 401, before any body is read or WebSocket accepted, unless the request brings a key."""

    def __init__(self, app: ASGIApp, keys: Sequence[str]) -> None:
        self._app = app
        self._ring = KeyRing(keys)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or self._is_open(scope) or self._has_key(scope):
            await self._app(scope, receive, send)
            return
        response = JSONResponse(error_document(_UNAUTHORIZED), status_code=401, headers={"WWW-Authenticate": "Bearer"})
        if scope["type"] == "websocket" and "websocket.http.response" not in scope.get("extensions", {}):
            await send({"type": "websocket.close", "code": 1008})
            return
        await response(scope, receive, send)

    def _is_open(self, scope: Scope) -> bool:
        return scope["type"] == "http" and scope["method"] in ("GET", "HEAD") and scope["path"] in OPEN_PATHS

    def _has_key(self, scope: Scope) -> bool:
        headers = Headers(scope=scope)
        scheme, _, key = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._ring.accepts(key.strip()):
            return True
        offered = headers.get("sec-websocket-protocol", "") if scope["type"] == "websocket" else ""
        names = [name.strip() for name in offered.split(",")]
        keys = [name.removeprefix(_SUBPROTOCOL) for name in names if name.startswith(_SUBPROTOCOL)]
        return any(self._ring.accepts(key) for key in keys)
