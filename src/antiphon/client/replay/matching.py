"""Whether two events say the same, and which recorded id is which live one."""

from collections.abc import Iterator
from dataclasses import dataclass

from antiphon.wire.realtime.json_frame import JsonObject

# What differs between two runs of the same build: ids of frames, credentials, times, and what depends on times.
_IGNORED = frozenset(
    {
        "event_id",
        "server_event_seq",
        "resume_token",
        "stage_metrics",
        "audio_text_marks",  # say where pieces end
        "response_request_metrics",
        "playback",
        "state",
        "turn_state",
        "active_request_id",
        "active_response_id",
        "active_response_turn_id",
        "estimated_wait_s",
        "seconds_left",
        "server_send_ts",
        "latency_ms",
    }
)
# Sound and words come in pieces whose number is free; they are compared whole (`pieces`).
_PIECES = ("delta", "audio", "text")


@dataclass(frozen=True)
class Mismatch:
    """A field by its path, and both values."""

    path: str
    recorded: object
    live: object


class IdMap:
    """Recorded ids and the live ones that stand in their places. One recorded id has one live one."""

    def __init__(self) -> None:
        self._live: dict[str, str] = {}

    def learn(self, recorded: object, live: object) -> None:
        """Note the ids of two events that stand in the same place."""
        for key, old, new in _pairs(recorded, live, ""):
            if _is_id(key) and isinstance(old, str) and isinstance(new, str):
                self._live.setdefault(old, new)

    def substitute(self, value: object) -> object:
        """*value* of the recording with live ids in it."""
        if isinstance(value, dict):
            return {key: self.substitute(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.substitute(inner) for inner in value]
        return self._live.get(value, value) if isinstance(value, str) else value

    def same(self, recorded: str, live: str) -> bool:
        return self._live.get(recorded, recorded) == live


def is_piece(event: JsonObject) -> bool:
    return str(event.get("type", "")).endswith(".delta")


def compare_events(recorded: JsonObject, live: JsonObject, ids: IdMap) -> list[Mismatch]:
    """Every field that differs, ids and times aside; for a kind of its own the kind alone."""
    if recorded.get("type") != live.get("type"):
        return [Mismatch("type", recorded.get("type"), live.get("type"))]
    found = []
    for path, old, new in _pairs(recorded, live, ""):
        if _is_id(path) and isinstance(old, str) and isinstance(new, str):
            if ids.same(old, new):
                continue
        elif old == new:
            continue
        found.append(Mismatch(path, old, new))
    return found


def piece_content(event: JsonObject) -> tuple[str, str] | None:
    """What a piece carries: its kind and the content; None if it carries nothing."""
    for key in _PIECES:
        content = event.get(key)
        if isinstance(content, str) and content:
            kind = event.get("kind")
            return f"{event['type']} {kind}" if isinstance(kind, str) else str(event["type"]), content
    return None


def _pairs(recorded: object, live: object, path: str) -> Iterator[tuple[str, object, object]]:
    """The leaves of two values, walked together."""
    if isinstance(recorded, dict) and isinstance(live, dict):
        for key in {**recorded, **live}:
            if key not in _IGNORED:
                yield from _pairs(recorded.get(key), live.get(key), f"{path}.{key}" if path else key)
    elif isinstance(recorded, list) and isinstance(live, list) and len(recorded) == len(live):
        for place, (old, new) in enumerate(zip(recorded, live, strict=True)):
            yield from _pairs(old, new, f"{path}[{place}]")
    else:
        yield path, recorded, live


def _is_id(path: str) -> bool:
    last = path.rpartition(".")[2]
    return last == "id" or last.endswith("_id")
