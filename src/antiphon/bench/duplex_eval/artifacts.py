"""Files of a run: where they lie, and how they are read and written so that a broken-off run leaves none by half."""

import json
from collections.abc import Mapping
from pathlib import Path

from antiphon.core.errors import ConfigError

META_ENDING = ".meta.json"


def response_path(root: Path, split: str, sample_id: str) -> Path:
    return root / split / f"{sample_id}.json"


def meta_path(root: Path, split: str, sample_id: str) -> Path:
    return root / split / f"{sample_id}{META_ENDING}"


def read_json(path: Path) -> object:
    """Raises ConfigError if *path* is not a JSON file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"{path}: not JSON ({error})") from None


def read_object(path: Path) -> Mapping[str, object]:
    """The object in *path*; empty if there is no such file. Raises ConfigError if it holds something else."""
    if not path.exists():
        return {}
    found = read_json(path)
    if not isinstance(found, dict):
        raise ConfigError(f"{path}: must be a JSON object")
    return found


def write_json(path: Path, document: object) -> None:
    """Raises ConfigError if *path* cannot be written."""
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(path.name + ".part")
        part.write_text(text + "\n", encoding="utf-8")
        part.replace(path)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written ({error.strerror})") from None
