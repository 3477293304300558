"""Reads a judge's reply: JSON, or what can be rescued of it. A number that cannot be read is 0."""

import json
import re
from collections.abc import Mapping

_OBJECT = re.compile(r"\{.*\}", re.DOTALL)


def read_number(reply: str, field: str, low: float, high: float) -> tuple[float, bool]:
    """The number called *field* in *reply*, kept within its scale, and whether there was one."""
    value = _parsed(reply).get(field)
    if isinstance(value, str):
        value = _as_number(value)
    if isinstance(value, bool):
        value = int(value)
    if not isinstance(value, (int, float)) or value != value:
        found = re.search(rf"[\"']?{re.escape(field)}[\"']?\s*[:=]\s*[\"']?(-?\d+(?:\.\d+)?)", reply)
        value = float(found[1]) if found else None
    if value is None:
        return 0.0, False
    return min(max(float(value), low), high), True


def _parsed(reply: str) -> Mapping[str, object]:
    """The outermost object in *reply*, around which judges like to talk and to draw fences."""
    match = _OBJECT.search(reply)
    try:
        found = json.loads(match[0]) if match else None
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {}


def _as_number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
