"""Remembers what scorers heard, so that a second pass over the same recordings costs nothing."""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from antiphon.core.errors import ConfigError, MediaError
from antiphon.evals.scorers.protocols import ScorerName

SCORES = "scores.jsonl"
Value = TypeVar("Value", str, float)


class ScoreCache:
    """Lines of (scorer, recordings, value) beside the outputs. A line that cannot be read is as good as none."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / SCORES
        self._known: dict[str, object] = {}
        try:
            lines = self._path.read_text(encoding="utf-8").splitlines() if self._path.is_file() else []
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{self._path}: cannot be read ({error})") from None
        for line in lines:
            try:
                row = json.loads(line)
                self._known[str(row["key"])] = row["value"]
            except (ValueError, KeyError, TypeError):
                continue

    def get(
        self, kind: type[Value], scorer: ScorerName, facts: str, files: list[Path], make: Callable[[], Value]
    ) -> Value:
        """The value of *scorer* for the content of *files* and *facts*: an earlier one, or what *make* returns."""
        key = _key(scorer, facts, files)
        value = self._known.get(key)
        if isinstance(value, kind):
            return value
        made = make()
        self._known[key] = made
        self._append({"scorer": scorer.text, "key": key, "value": made})
        return made

    def _append(self, row: Mapping[str, object]) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
        except OSError as error:
            raise ConfigError(f"{self._path}: cannot be written ({error.strerror})") from None


def _key(scorer: ScorerName, facts: str, files: list[Path]) -> str:
    digest = hashlib.sha256(json.dumps([scorer.as_json(), facts]).encode())
    for path in files:
        try:
            digest.update(hashlib.sha256(path.read_bytes()).digest())
        except OSError as error:
            raise MediaError(f"{path}: {error.strerror}") from None
    return digest.hexdigest()[:32]
