"""What all handlers share: reading a body within its limit, ending work when the client goes, and answering errors."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive

from antiphon.serving.context import REQUEST_ID
from antiphon.serving.errors import BAD_REQUEST, HttpError, Problem, error_response, problem_of
from antiphon.serving.sse import gone

T = TypeVar("T")
Endpoint = Callable[[Request], Awaitable[Response]]
CLIENT_CLOSED = 499  # nobody reads it
_STATUS_KINDS = {404: "NotFoundError", 405: "MethodNotAllowedError"}


class ClientGoneError(Exception):
    """The client has closed the connection."""


def answered(endpoint: Endpoint) -> Endpoint:
    """Wrap a handler so that whatever goes wrong in it is answered in OpenAI's body."""

    async def handle(request: Request) -> Response:
        try:
            return await endpoint(request)
        except (ClientGoneError, ClientDisconnect):
            return Response(status_code=CLIENT_CLOSED)
        except Exception as error:  # noqa: BLE001 - the HTTP boundary: a client is told, and the server goes on
            return error_response(problem_of(error), str(getattr(request.state, REQUEST_ID)))

    return handle


async def read_json_body(request: Request, max_bytes: int) -> bytes:
    """The body of a JSON request.

    Raises:
        HttpError: another content type, or more than *max_bytes*.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HttpError(BAD_REQUEST, "Content-Type must be application/json")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise HttpError(415, "compressed request bodies are not accepted")
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > max_bytes:
            raise HttpError(413, f"the request has more than {max_bytes // 2**20} MiB, the most that is accepted")
    return bytes(body)


async def while_connected(receive: Receive, work: Coroutine[object, object, T]) -> T:
    """Do *work*, and cancel it when the client goes. Raises ClientGoneError then."""
    task = asyncio.ensure_future(work)
    watcher = asyncio.ensure_future(gone(receive))
    try:
        await asyncio.wait((task, watcher), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGoneError
        return task.result()
    finally:
        for pending in (task, watcher):
            pending.cancel()
        await asyncio.gather(task, watcher, return_exceptions=True)


async def answer_http_exception(_request: Request, error: Exception) -> JSONResponse:
    """Unknown paths and methods."""
    assert isinstance(error, HTTPException)
    kind = _STATUS_KINDS.get(error.status_code, "BadRequestError")
    response = error_response(Problem(error.status_code, kind, str(error.detail)))
    response.headers.update(error.headers or {})
    return response
