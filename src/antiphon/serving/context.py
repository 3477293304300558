"""What every request gets first: an id, the time it came, and a place in the count of what is in flight."""

import re
import secrets
from time import perf_counter

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from antiphon.serving.errors import UNAVAILABLE, Problem, error_response
from antiphon.serving.lifecycle import Lifecycle
from antiphon.telemetry.logs import request_id

_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
REQUEST_ID, ARRIVAL_S = "request_id", "arrival_s"  # in the scope's state
_DRAINING = Problem(UNAVAILABLE, "ServiceUnavailableError", "The server is shutting down; send the request elsewhere.")


class RequestContext:
    """The outermost layer. Requests for work are turned away while the server drains; probes still answer."""

    def __init__(self, app: ASGIApp, lifecycle: Lifecycle) -> None:
        self._app = app
        self._lifecycle = lifecycle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get("x-request-id", "")
        name = given if _ID.fullmatch(given) else secrets.token_hex(16)
        state = scope.setdefault("state", {})
        state[REQUEST_ID], state[ARRIVAL_S] = name, perf_counter()

        async def send_named(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["X-Request-Id"] = name
            await send(message)

        token = request_id.set(name)
        try:
            if scope["method"] != "POST":
                await self._app(scope, receive, send_named)
            elif self._lifecycle.is_draining:
                await error_response(_DRAINING)(scope, receive, send_named)
            else:
                self._lifecycle.enter()
                try:
                    await self._app(scope, receive, send_named)
                finally:
                    self._lifecycle.leave()
        finally:
            request_id.reset(token)
