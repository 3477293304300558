"""The connection under a client: text frames out, frames in; by default a WebSocket."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from antiphon.client.errors import DuplexConnectionError

MAX_FRAME_BYTES = 64 * 2**20


class Transport(Protocol):
    """What a `connect=` callable returns. `send` and `recv` raise once the connection is gone: `DuplexConnectionError`,
    `OSError`, `EOFError`, or websockets' `ConnectionClosed`."""

    async def send(self, data: str) -> None: ...

    async def recv(self) -> str | bytes: ...

    async def close(self) -> None: ...


Connect = Callable[[str], Awaitable[Transport]]
LOST = (DuplexConnectionError, ConnectionClosed, OSError, EOFError)


class WebSocket:
    """A `Transport` over the websockets library."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    async def send(self, data: str) -> None:
        await self._connection.send(data)

    async def recv(self) -> str | bytes:
        return await self._connection.recv()

    async def close(self) -> None:
        await self._connection.close()

    def abort(self) -> None:
        """Cut the connection without a closing handshake."""
        self._connection.transport.abort()


def websocket_connect(headers: Mapping[str, str], timeout_s: float) -> Connect:
    """A function that opens a WebSocket with *headers* in its upgrade.

    What it raises is a DuplexConnectionError, with the HTTP status in its text where the upgrade was refused.
    """

    async def open_one(url: str) -> Transport:
        try:
            connection = await connect(
                url,
                additional_headers=dict(headers),
                max_size=MAX_FRAME_BYTES,
                compression=None,
                open_timeout=timeout_s,
            )
        except InvalidStatus as error:
            status = error.response.status_code
            hint = "; an API key is needed, or another one" if status == 401 else ""
            raise DuplexConnectionError(f"the server refuses the connection with HTTP {status}{hint}") from error
        except TimeoutError as error:
            raise DuplexConnectionError(f"no connection within {timeout_s:g} s") from error
        except (OSError, InvalidHandshake) as error:
            raise DuplexConnectionError(f"no connection: {error}") from error
        return WebSocket(connection)

    return open_one
