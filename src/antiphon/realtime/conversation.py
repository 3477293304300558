"""The items of a session in order, as clients see them, and the history that the model may be told."""

from dataclasses import dataclass
from enum import Enum

from antiphon.wire.realtime.errors import RealtimeError
from antiphon.wire.realtime.json_frame import JsonObject


class Role(str, Enum):
    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"
    TOOL = "tool"


@dataclass
class Item:
    """One item. `heard` is the text that counts as history: of an assistant, only what the user heard."""

    id: str
    role: Role
    shown: JsonObject
    heard: str = ""
    previous_id: str | None = None
    is_audio: bool = False
    is_answered: bool = False


class Conversation:
    """Items by id, in order. What a client calls `root` or leaves out is resolved to an existing item or None."""

    def __init__(self, max_items: int) -> None:
        self._max_items = max_items
        self._items: dict[str, Item] = {}

    def __contains__(self, item_id: str) -> bool:
        return item_id in self._items

    def __len__(self) -> int:
        return len(self._items)

    @property
    def tail(self) -> str | None:
        return next(reversed(self._items), None)

    def get(self, item_id: str | None) -> Item:
        """Raises RealtimeError `missing_item_id` or `item_not_found`."""
        if not item_id:
            raise RealtimeError("missing_item_id", "item_id is missing", param="item_id")
        item = self._items.get(item_id)
        if item is None:
            raise RealtimeError("item_not_found", f"there is no item {item_id!r}"[:200], param="item_id")
        return item

    def check_new(self, item_id: str) -> None:
        """Raises RealtimeError for an id that is taken."""
        if item_id in self._items:
            raise RealtimeError("bad_event", f"there already is an item {item_id!r}"[:200], param="item.id")

    def add(self, item: Item, previous_id: str | None = None) -> None:
        """Put *item* behind *previous_id*, at the end if that is None or unknown; the oldest leave a full list."""
        if previous_id is None or previous_id not in self._items or previous_id == self.tail:
            item.previous_id = self.tail
            self._items[item.id] = item
        else:
            item.previous_id = previous_id
            ordered: dict[str, Item] = {}
            for key, value in self._items.items():
                ordered[key] = value
                if key == previous_id:
                    ordered[item.id] = item
            self._items = ordered
        while len(self._items) > self._max_items:
            del self._items[next(iter(self._items))]

    def remove(self, item_id: str) -> None:
        del self._items[item_id]

    def unanswered_texts(self) -> list[Item]:
        """User items without sound that no response has followed."""
        return [item for item in self._items.values() if _is_open_text(item)]

    def mark_answered(self) -> None:
        for item in self._items.values():
            item.is_answered = True

    def history(self) -> list[tuple[Role, str]]:
        """What was said, so far as it was heard. Sound of the user stands as an empty text."""
        return [
            (item.role, item.heard) for item in self._items.values() if item.heard or item.role is not Role.ASSISTANT
        ]


def _is_open_text(item: Item) -> bool:
    return item.role is Role.USER and not item.is_audio and not item.is_answered


def user_audio_item(item_id: str, transcript: str, *, is_speech: bool = True) -> JsonObject:
    content: JsonObject = {"type": "input_audio", "transcript": transcript}
    if not is_speech:
        content["is_speech"] = False
    return item_object(item_id, Role.USER, "completed", [content])


def item_object(item_id: str, role: Role, status: str, content: list[object]) -> JsonObject:
    return {
        "id": item_id,
        "object": "realtime.item",
        "type": "message",
        "role": role.value,
        "status": status,
        "content": content,
    }
