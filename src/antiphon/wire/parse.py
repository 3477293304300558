"""Bytes of a request body to its type, with one line about whatever is wrong."""

from collections.abc import Sequence
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from antiphon.core.errors import AntiphonError

_CONTENT_TAGS = ("string", "parts", "null")
MAX_SHOWN_CHARS = 60

T = TypeVar("T", bound=BaseModel)


class WireError(AntiphonError):
    """A request body that cannot be read. `param` is the path of the field, None for the body as a whole."""

    code = "bad_request"

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


def parse(kind: type[T], body: bytes) -> T:
    """Read the JSON of *body* as *kind*.

    Raises:
        WireError: no JSON, or a field that is missing, of another type, or unknown where names are fixed.
    """
    try:
        return kind.model_validate_json(body, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        if first["type"] == "json_invalid":
            reason = str(first["ctx"]["error"]) if "ctx" in first else "cannot be parsed"
            raise WireError(f"the body is not valid JSON: {reason}") from None
        param = field_path(first["loc"])
        raise WireError(
            f"{param or 'the body'}: {_reason(first['type'], first['msg'], first.get('ctx'))}", param
        ) from None


def field_path(loc: Sequence[int | str]) -> str | None:
    """`("messages", 0, "content", "parts", 1, "text", "text")` to `messages[0].content[1].text`."""
    path = ""
    steps: list[int | str] = list(loc)
    while steps:
        step = steps.pop(0)
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
        # Pydantic writes which member of a union was tried; clients know nothing of those.
        if step == "content" and steps and steps[0] in _CONTENT_TAGS:
            place = steps[1:2]
            path += "".join(f"[{number}]" for number in place)
            del steps[: 3 if place else 1]
    return path or None


def _reason(kind: str, text: str, context: dict[str, object] | None) -> str:
    if kind == "union_tag_invalid" and context is not None:
        expected = str(context["expected_tags"]).replace("'", "")
        return f"type is {shorten(context['tag'])}; known: {expected}"
    if kind == "union_tag_not_found":
        return (
            "type is missing"
            if context is None or "discriminator" not in context
            else f"{context['discriminator']} is missing"
        )
    reason = text.removeprefix("Value error, ").removeprefix("Input ")
    return reason[0].lower() + reason[1:]


def shorten(value: object) -> str:
    """`repr` of what a client sent, short enough for a message."""
    text = repr(value)
    return text if len(text) <= MAX_SHOWN_CHARS else f"{text[:MAX_SHOWN_CHARS]}…"
