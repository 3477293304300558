"""What differs between a recorded session and a live one, lane by lane."""

import hashlib
from base64 import b64decode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from antiphon.client.replay.lanes import Lane, LaneBook
from antiphon.client.replay.matching import IdMap, compare_events, is_piece, piece_content
from antiphon.wire.realtime.json_frame import JsonObject

NOTHING = "(nothing)"
_MAX_SHOWN = 120
_CHANCE = ("session.heartbeat_ack",)  # how many there are is a matter of time


class SoundCheck(str, Enum):
    """How closely sound is compared."""

    EXACT = "exact"
    LENGTH = "length"
    IGNORE = "ignore"


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One line of the report: where, what was recorded, what came."""

    lane: Lane
    where: str
    recorded: str
    live: str


def compare(recorded: LaneBook, live: LaneBook, ids: IdMap, sound: SoundCheck) -> list[Difference]:
    """All differences, in the order of the recording."""
    found: list[Difference] = []
    for lane in {**recorded.lanes, **live.lanes}:
        if lane not in _CHANCE:
            found += _compare_lane(lane, recorded.lanes.get(lane, []), live.lanes.get(lane, []), ids, sound)
    return found


def _compare_lane(
    lane: Lane, recorded: Sequence[JsonObject], live: Sequence[JsonObject], ids: IdMap, sound: SoundCheck
) -> Iterator[Difference]:
    old = [event for event in recorded if not is_piece(event)]
    new = [event for event in live if not is_piece(event)]
    for place in range(max(len(old), len(new))):
        if place >= len(old) or place >= len(new):
            kinds = [str(side[place]["type"]) if place < len(side) else NOTHING for side in (old, new)]
            yield Difference(lane=lane, where=f"event {place + 1}", recorded=kinds[0], live=kinds[1])
            continue
        for mismatch in compare_events(old[place], new[place], ids):
            yield Difference(
                lane=lane,
                where=f"event {place + 1}, {old[place]['type']}: {mismatch.path}",
                recorded=_shown(mismatch.recorded),
                live=_shown(mismatch.live),
            )
    contents = [_contents(side) for side in (recorded, live)]
    for kind in {**contents[0], **contents[1]}:
        before, after = (_judged(kind, side.get(kind, []), sound) for side in contents)
        if before != after:
            yield Difference(lane=lane, where=f"{kind}, all together", recorded=_shown(before), live=_shown(after))


def _contents(events: Sequence[JsonObject]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for event in events:
        piece = piece_content(event) if is_piece(event) else None
        if piece is not None:
            found.setdefault(piece[0], []).append(piece[1])
    return found


def _judged(kind: str, pieces: Sequence[str], sound: SoundCheck) -> str:
    """Text as it is; of sound its length and, if asked for, a digest."""
    if "audio" not in kind or "transcript" in kind:
        return "".join(pieces)
    if sound is SoundCheck.IGNORE:
        return ""
    content = b"".join(b64decode(piece) for piece in pieces)
    told = f"{len(content)} bytes"
    return told if sound is SoundCheck.LENGTH else f"{told}, digest {hashlib.sha256(content).hexdigest()[:12]}"


def _shown(value: object) -> str:
    text = NOTHING if value is None else str(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 1]}…"
