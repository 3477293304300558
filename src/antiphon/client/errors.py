"""What can go wrong for a client of a Realtime server."""

from collections.abc import Mapping

from antiphon.core.errors import AntiphonError


class DuplexClientError(AntiphonError):
    """Anything that a duplex client raises."""

    code = "duplex_client_error"


class DuplexConnectionError(DuplexClientError):
    """The server cannot be reached, refuses the upgrade, or the connection is lost for good."""

    code = "duplex_connection_error"


class DuplexProtocolError(DuplexClientError):
    """The server answered with an `error` event.

    Attributes:
        code: the protocol's code, None where the server gave none.
        event_id: of the client's event that is to blame, where the server said so.
        raw: the event as it came.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        event_id: str | None = None,
        raw: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code or "unknown"
        self.event_id = event_id
        self.raw = dict(raw or {})


class DuplexSessionClosedError(DuplexClientError):
    """The session has ended, though nobody here asked for it."""

    code = "duplex_session_closed"

    def __init__(self, reason: str) -> None:
        super().__init__(f"the session has ended: {reason}")
        self.reason = reason
