"""Read the JSON files of a checkpoint folder, and the values of the real model that are shipped with the package."""

import json
from importlib.resources import as_file, files
from pathlib import Path

from antiphon.config.checkpoint import (
    ImageConfig,
    ModelConfig,
    Raw,
    parse_image_config,
    parse_model_config,
)
from antiphon.core.errors import CheckpointError

TOKEN2WAV = Path("assets", "token2wav")
SHIPPED = files("antiphon.config") / "data" / "minicpmo_4_5"


def read_json_object(path: Path) -> Raw:
    """Read one JSON file that holds an object. Raises CheckpointError with the file and what is wrong with it."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise CheckpointError(f"{path}: no such file; the folder is not a complete checkpoint") from error
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path}: not UTF-8 text (byte {error.start}); download the file again") from error
    except json.JSONDecodeError as error:
        raise CheckpointError(
            f"{path}: not valid JSON (line {error.lineno}: {error.msg}); download the file again"
        ) from error
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror}") from error
    if not isinstance(raw, dict):
        raise CheckpointError(f"{path}: holds {type(raw).__name__}, expected a JSON object")
    return raw


def require_folder(folder: Path) -> None:
    """Refuse a path that is not a folder with a `config.json`."""
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "no such folder"
        raise CheckpointError(f"{folder}: {what}; give the folder of a checkpoint, a hub id, or 'tiny'")
    if not (folder / "config.json").is_file():
        raise CheckpointError(f"{folder}: has no config.json; give the folder that holds the checkpoint's files")


def load_model_config(folder: Path) -> ModelConfig:
    """Read `config.json` of a checkpoint folder."""
    require_folder(folder)
    path = folder / "config.json"
    return parse_model_config(read_json_object(path), str(path))


def load_image_config(folder: Path) -> ImageConfig:
    """Read `preprocessor_config.json` of a checkpoint folder."""
    path = folder / "preprocessor_config.json"
    return parse_image_config(read_json_object(path), str(path))


def shipped_model_config() -> ModelConfig:
    """`config.json` of the real model."""
    with as_file(SHIPPED / "config.json") as path:
        return parse_model_config(read_json_object(path), "the shipped config.json")


def shipped_image_config() -> ImageConfig:
    """`preprocessor_config.json` of the real model."""
    with as_file(SHIPPED / "preprocessor_config.json") as path:
        return parse_image_config(read_json_object(path), "the shipped preprocessor_config.json")
