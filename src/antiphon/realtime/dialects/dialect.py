"""What a dialect of the Realtime protocol is to a session: how frames are read and written, and where rules differ.

The session itself speaks the client and server events of `wire.realtime`, which are vLLM-Omni's. A dialect stands
between them and one socket; it holds what it must remember of one session, so each session has its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from antiphon.realtime.settings import SessionSettings
from antiphon.wire.realtime.client_events import ClientEvent
from antiphon.wire.realtime.json_frame import JsonObject
from antiphon.wire.realtime.server_events import ServerEvent


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Where sessions of a dialect behave differently, not only speak differently. The defaults are vLLM-Omni's."""

    can_resume: bool = True  # tokens, sequence numbers and a journal
    announces_open: bool = True  # an opening by query is followed by session.updated
    announces_update: bool = True  # so is one by a first frame
    closes_items: bool = False  # with an open microphone the server ends the user's items (section 3.4)
    answers_every_request: bool = False  # response.create as in section 17.2
    keeps_input: bool = (
        False  # what was committed waits for its answer, whatever is said, cancelled or cleared meanwhile
    )
    clamps_truncation: bool = False
    takes_late_instructions: bool = False  # until the first unit; ignored later, not refused


class Dialect(Protocol):
    """One session's translation."""

    @property
    def name(self) -> str: ...

    @property
    def rules(self) -> Rules: ...

    def defaults(self, settings: SessionSettings) -> SessionSettings:
        """The server's default *settings* as a session of this dialect begins with them."""

    def settle(self, body: JsonObject, settings: SessionSettings, /) -> "tuple[Dialect, SessionSettings]":
        """Dialect and settings that the session has from the client frame *body* on; nearly always the present ones."""

    def parse(self, body: JsonObject) -> Sequence[ClientEvent]:
        """The events of the session that the client frame *body* stands for.

        Raises:
            RealtimeError: the frame is refused.
        """

    def render(self, event: ServerEvent) -> Sequence[bytes]:
        """The text frames that *event*, stamped with its id, becomes; none where the dialect has no word for it.

        An event with a sequence number gives exactly one.
        """
