"""Messages as a chat template reads them: role, one string with media as handles, tool calls."""

import re
from collections.abc import Callable, Sequence

from antiphon.core.errors import PromptError
from antiphon.prompt.messages import ROLES, Message, TextPart
from antiphon.prompt.segments import Handles, Media

_THINK_TAGS = re.compile("(</?think>)")


def template_messages(
    messages: Sequence[Message], *, join: str, handles: Handles, shield: Callable[[str], str]
) -> list[dict[str, object]]:
    """One mapping per message. Media parts are numbered over the whole conversation, in order.

    Args:
        join: what stands between the parts of a message.
        shield: applied to every text that comes from outside.
    """
    rendered: list[dict[str, object]] = []
    num_media = 0
    for place, message in enumerate(messages):
        if message.role not in ROLES:
            raise PromptError(f"message {place}: role is {message.role!r}; known roles: {', '.join(ROLES)}")
        if message.tool_calls and message.role != "assistant":
            raise PromptError(f"message {place}: only an assistant message can hold tool calls")
        strings = []
        for part in message.parts:
            if isinstance(part, TextPart):
                strings.append(_shield_text(part.text, message.role, shield))
            else:
                strings.append(handles.lend(Media(num_media)))
                num_media += 1
        fields: dict[str, object] = {"role": message.role, "content": join.join(strings)}
        if message.tool_calls:
            fields["tool_calls"] = [_call_fields(call.name, call.arguments, shield) for call in message.tool_calls]
        rendered.append(fields)
    return rendered


def _shield_text(text: str, role: str, shield: Callable[[str], str]) -> str:
    """In earlier answers the tags around a thought stay visible: the template drops or keeps the thought by them."""
    if role != "assistant":
        return shield(text)
    return "".join(piece if _THINK_TAGS.fullmatch(piece) else shield(piece) for piece in _THINK_TAGS.split(text))


def _call_fields(name: str, arguments: object, shield: Callable[[str], str]) -> dict[str, object]:
    """Parsed arguments become JSON, and are shielded, inside the template."""
    return {
        "type": "function",
        "function": {"name": shield(name), "arguments": shield(arguments) if isinstance(arguments, str) else arguments},
    }
