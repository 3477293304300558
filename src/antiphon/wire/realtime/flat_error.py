"""The refusal of a route, sent before a session and its codec exist: flat, not in the envelope of other errors."""

import msgspec


class FlatError(msgspec.Struct, frozen=True, tag_field="type", tag="error"):
    error: str
    code: str


def render_flat_error(code: str, message: str) -> bytes:
    return msgspec.json.encode(FlatError(error=message, code=code))
