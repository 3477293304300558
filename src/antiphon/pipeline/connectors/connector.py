"""What every connector offers: the producer's end takes messages, the consumer's end yields them in order."""

from collections.abc import Sequence
from typing import Protocol

from antiphon.core.errors import EngineError


class ConnectorError(EngineError):
    """A message could not be handed over. Its request ends; the connection may go on."""

    code = "connector_failed"


class ConnectorTimeoutError(ConnectorError):
    """The consumer did not make room in time."""

    code = "connector_timeout"


class ConnectorClosedError(ConnectorError):
    """The other end is gone."""

    code = "connector_closed"


class Outlet(Protocol):
    """The producer's end. One thread."""

    def put(self, message: object, *, timeout_s: float) -> None:
        """Hand *message* over; returns when its memory may be reused.

        Raises:
            ConnectorTimeoutError: no room within *timeout_s*; nothing of the message arrives.
            ConnectorClosedError: there is no other end any more.
            StateError: the message has no encoding.
        """
        ...

    def close(self) -> None: ...


class Inlet(Protocol):
    """The consumer's end. One thread, which waits until one of `descriptors` is readable and then calls `get`."""

    @property
    def address(self) -> str:
        """Where an outlet finds this end."""
        ...

    @property
    def is_closed(self) -> bool:
        """The producer is gone and everything it had handed over was taken."""
        ...

    def descriptors(self) -> Sequence[int]:
        """File descriptors; may change with each `get`."""
        ...

    def get(self) -> list[object]:
        """Take what has arrived. Never blocks.

        Raises:
            StateError: bytes that are no message of this connection.
        """
        ...

    def close(self) -> None: ...
