"""Sorts server events into lanes, inside which their order is the protocol's, while between lanes it is chance.

A response is a lane; so are moments of listening, the user's side of the conversation, and each other kind of event.
"""

from antiphon.wire.realtime.json_frame import JsonObject

Lane = str
_CONVERSATION = ("input_audio_buffer.", "conversation.item.")
_ITEM = "item_"


class LaneBook:
    """Lanes of one side, recorded or live. Responses are numbered in the order in which they began."""

    def __init__(self) -> None:
        self._responses: dict[str, int] = {}
        self.lanes: dict[Lane, list[JsonObject]] = {}

    def add(self, event: JsonObject) -> tuple[Lane, int]:
        """File *event*; returns its lane and its place in it."""
        lane = self._lane(event)
        events = self.lanes.setdefault(lane, [])
        events.append(event)
        return lane, len(events) - 1

    def sizes(self) -> dict[Lane, int]:
        return {lane: len(events) for lane, events in self.lanes.items()}

    def _lane(self, event: JsonObject) -> Lane:
        kind = str(event.get("type", ""))
        response_id = _response_id(event)
        if response_id is not None and kind.startswith(("response.", "conversation.item.")):
            number = self._responses.setdefault(response_id, len(self._responses) + 1)
            return f"response {number}"
        if kind == "response.listen":
            return "listening"
        if kind.startswith(_CONVERSATION):
            return "conversation"
        return kind


def _response_id(event: JsonObject) -> str | None:
    """Of the response that *event* belongs to: by its own word, or as the item of a response."""
    inner, item = event.get("response"), event.get("item")
    item_id = item.get("id") if isinstance(item, dict) else event.get("item_id")
    found = event.get("response_id") or (inner.get("id") if isinstance(inner, dict) else None)
    if found is None and isinstance(item_id, str) and item_id.startswith(f"{_ITEM}resp"):
        found = item_id.removeprefix(_ITEM)
    return found if isinstance(found, str) else None
