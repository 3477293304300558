"""How the tiny checkpoint writes JSON: readable, with its characters as they are, the same bytes every time."""

import json
from pathlib import Path


def write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8", newline="\n")
