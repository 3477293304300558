"""A recorded session: one JSON object a line, in the order in which things happened at the server's edge.

Credentials are never in a trace: no header is kept, and keys in the query, key subprotocols and resume tokens are
taken out before a line is made. Sound and words are in it, as they were sent.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec
from msgspec import Struct

from antiphon.wire.realtime.json_frame import JsonObject

FORMAT = 1
REDACTED = "…"
_SECRET_PARAMETERS = frozenset({"key", "api_key", "api-key", "apikey", "token", "access_token", "authorization"})
_TOKEN_KEY = "resume_token"


class _Line(Struct, frozen=True, kw_only=True, tag_field="kind", omit_defaults=True):
    """Seconds from the session's first connection; the connection counts from 1, further ones are resumes."""

    at_s: float
    connection: int


class TraceOpened(_Line, frozen=True, kw_only=True, tag="opened", omit_defaults=True):
    path: str
    query: dict[str, str]
    format: int
    subprotocol: str | None = None


class TraceFrame(_Line, frozen=True, kw_only=True, tag="frame", omit_defaults=True):
    """`by` sent it. What is no JSON object is kept as text; a binary frame as neither."""

    by: Literal["client", "server"]
    event: JsonObject | None = None
    text: str | None = None


class TraceClosed(_Line, frozen=True, kw_only=True, tag="closed", omit_defaults=True):
    """The connection is over; `by` client also stands for one that was cut."""

    by: Literal["client", "server"]
    code: int


class TraceTruncated(_Line, frozen=True, kw_only=True, tag="truncated", omit_defaults=True):
    """From here on nothing was kept, for this reason."""

    reason: str


TraceLine = TraceOpened | TraceFrame | TraceClosed | TraceTruncated


def render_line(line: TraceLine) -> bytes:
    return msgspec.json.encode(line) + b"\n"


def parse_line(text: str | bytes) -> TraceLine:
    """Raises msgspec.ValidationError or DecodeError for what is no line of a trace."""
    return msgspec.json.decode(text, type=TraceLine)


def redacted_query(query: Mapping[str, str]) -> dict[str, str]:
    return {name: REDACTED if name.lower() in _SECRET_PARAMETERS else value for name, value in query.items()}


def redacted_event(event: JsonObject) -> JsonObject:
    """*event* without its credential."""
    return {**event, _TOKEN_KEY: REDACTED} if _TOKEN_KEY in event else event
