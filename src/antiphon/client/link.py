"""The seam between a client session and what carries its events: a socket that comes back, or a server in process."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from antiphon.wire.realtime.json_frame import JsonObject


@dataclass(frozen=True)
class LinkEvents:
    """Whom a link tells. `deliver` gets every event once, in order; `ended` is called once, behind the last.

    `ended` is given None when the end was asked for, else the reason.
    """

    deliver: Callable[[JsonObject], None]
    ended: Callable[[str | None], None]


class Link(Protocol):
    """Carries one session. All methods raise DuplexClientError."""

    async def open(self, session: JsonObject, events: LinkEvents) -> JsonObject:
        """Open a session with the settings *session*; returns the `session.created`, which is delivered too."""

    async def send(self, event: JsonObject) -> None:
        """Hand *event* over. While the connection is being restored this waits."""

    async def close(self, timeout_s: float) -> None:
        """End the session: ask for it, wait at most *timeout_s* for the server's last event, and let go."""

    async def abandon(self) -> None:
        """Let go at once, after a last word to the server."""
