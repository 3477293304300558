"""One line of `outputs.jsonl`, from and to an Output. File names in it are relative to the folder."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

from antiphon.core.errors import ConfigError
from antiphon.evals.items import Output, Truth

_TEXTS = ("id", "target", "language", "reference", "gold", "text", "wav", "error", "transcript", "recogniser")
KEYS = (*_TEXTS, "groups", "arrivals", "e2e_s")


def parse_line(line: str, where: str, folder: Path) -> Output:
    """The output that *line* tells of. Raises ConfigError, which begins with *where*."""
    try:
        row = json.loads(line)
    except ValueError as error:
        raise ConfigError(f"{where}: not JSON ({error})") from None
    if not isinstance(row, dict):
        raise ConfigError(f"{where}: each line must be an object")
    for key, value in row.items():
        if key not in KEYS:
            raise ConfigError(f"{where}: unknown key {key!r}; known: {', '.join(KEYS)}")
        if key in _TEXTS and not isinstance(value, str):
            raise ConfigError(f"{where}: {key} must be a text, not {value!r}")
    if not row.get("id"):
        raise ConfigError(f"{where}: needs an id")
    truth = Truth(
        item_id=row["id"],
        target=row.get("target", ""),
        language=row.get("language", "en"),
        reference=folder / row["reference"] if row.get("reference") else None,
        gold=row.get("gold", ""),
        groups=_groups(row.get("groups", {}), where),
    )
    e2e_s = row.get("e2e_s")
    if e2e_s is not None and not _is_number(e2e_s):
        raise ConfigError(f"{where}: e2e_s must be a number of seconds, not {e2e_s!r}")
    return Output(
        truth=truth,
        text=row.get("text", ""),
        sound=folder / row["wav"] if row.get("wav") else None,
        arrivals=_arrivals(row.get("arrivals", []), where),
        e2e_s=e2e_s,
        error=row.get("error", ""),
        transcript=row.get("transcript"),
        recogniser=row.get("recogniser", ""),
    )


def render_line(output: Output, folder: Path) -> str:
    """The line of *output*, without what is empty."""
    truth = output.truth
    row: dict[str, object] = {
        "id": truth.item_id,
        "target": truth.target,
        "language": truth.language if truth.target else "",
        "reference": _relative(truth.reference, folder),
        "gold": truth.gold,
        "groups": dict(truth.groups),
        "text": output.text,
        "wav": _relative(output.sound, folder),
        "arrivals": [[round(at_s, 6), num_samples] for at_s, num_samples in output.arrivals],
        "e2e_s": output.e2e_s,
        "error": output.error,
        "transcript": output.transcript,
        "recogniser": output.recogniser,
    }
    return json.dumps({key: value for key, value in row.items() if value not in ("", None, [], {})}, ensure_ascii=False)


def _relative(path: Path | None, folder: Path) -> str:
    return "" if path is None else Path(os.path.relpath(path, folder)).as_posix()


def _groups(value: object, where: str) -> Mapping[str, str]:
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value.values()):
        raise ConfigError(f"{where}: groups must be an object of texts")
    return value


def _arrivals(value: object, where: str) -> tuple[tuple[float, int], ...]:
    pairs = value if isinstance(value, list) else [value]
    found: list[tuple[float, int]] = []
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 2 or not _is_number(pair[0]) or type(pair[1]) is not int:
            raise ConfigError(f"{where}: arrivals must be a list of [seconds, samples]")
        if pair[1] < 0 or (found and pair[0] < found[-1][0]):
            raise ConfigError(f"{where}: arrivals must be in the order of their times, with samples from 0")
        found.append((float(pair[0]), pair[1]))
    return tuple(found)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
