"""Reads result files of `bench serve`, ours or vLLM-Omni's, one level or several."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from antiphon.core.errors import ConfigError

Document = Mapping[str, object]


@dataclass(frozen=True)
class Result:
    """One run. `facts` describe it as a whole; each of `levels` has its own figures."""

    name: str
    facts: Document
    levels: tuple[Document, ...]


def read_result(text: str) -> Result:
    """The result in the file *text*, or of a file with several lines (`--append-result`) the one after `#`, from 1.

    Raises:
        ConfigError: no such file, not a result file, or no such line.
    """
    name, _, place = text.rpartition("#") if "#" in text and not Path(text).exists() else (text, "", "")
    documents = _read_documents(Path(name))
    if not place:
        if len(documents) > 1:
            raise ConfigError(f"{name}: holds {len(documents)} results; name one, as {name}#{len(documents)}")
        place = "1"
    if not (place.isdecimal() and 1 <= int(place) <= len(documents)):
        raise ConfigError(f"{text}: no such result; {name} holds {len(documents)}")
    return _as_result(text, documents[int(place) - 1])


def _read_documents(path: Path) -> list[Document]:
    try:
        content = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not a result file (not text)") from None
    try:
        whole = json.loads(content)
        found = whole if isinstance(whole, list) else [whole]
    except ValueError:
        try:
            found = [json.loads(line) for line in content.splitlines() if line.strip()]
        except ValueError as error:
            raise ConfigError(f"{path}: not a result file ({error})") from None
    if not found or not all(isinstance(item, dict) for item in found):
        raise ConfigError(f"{path}: not a result file (no object in it)")
    return found


def _as_result(name: str, document: Document) -> Result:
    levels = document.get("levels")
    if isinstance(levels, list) and levels and all(isinstance(level, dict) for level in levels):
        return Result(name, {key: value for key, value in document.items() if key != "levels"}, tuple(levels))
    if "completed" not in document or "duration" not in document:
        raise ConfigError(f"{name}: not a result file of `bench serve` (it lacks completed and duration)")
    return Result(name, document, (document,))
