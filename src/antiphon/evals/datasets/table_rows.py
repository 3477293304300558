"""Rows of a data set's table: Parquet (needs pyarrow, `[eval]`) or one JSON object a line."""

import json
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from antiphon.core.errors import ConfigError

Row = Mapping[str, Any]  # a table's cells are of any type


def read_rows(path: Path) -> Iterator[tuple[str, Row]]:
    """Each row behind the words that name its place. Raises ConfigError if the file cannot be read."""
    if path.suffix == ".parquet":
        yield from _parquet_rows(path)
        return
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read ({error})") from None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise ConfigError(f"{path}:{number}: not JSON ({error})") from None
        if not isinstance(row, dict):
            raise ConfigError(f"{path}:{number}: each line must be an object")
        yield f"{path}:{number}", row


def text_of(row: Row, key: str, where: str) -> str:
    """The text in column *key*. Raises ConfigError if there is none."""
    value = row.get(key)
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{where}: needs {key}, a text")
    return value


def texts_of(row: Row, key: str, where: str) -> list[str]:
    """The list of texts in column *key*. Raises ConfigError if there is none."""
    value = row.get(key)
    if not isinstance(value, list) or not value or not all(isinstance(text, str) for text in value):
        raise ConfigError(f"{where}: needs {key}, a list of texts")
    return value


def _parquet_rows(path: Path) -> Iterator[tuple[str, Row]]:
    if find_spec("pyarrow") is None:
        raise ConfigError(f"{path}: Parquet needs pyarrow; install it with: pip install 'antiphon[eval]'")
    from pyarrow import ArrowException, parquet

    try:
        rows = parquet.read_table(path).to_pylist()
    except (OSError, ArrowException) as error:
        raise ConfigError(f"{path}: cannot be read ({error})") from None
    for place, row in enumerate(rows):
        yield f"{path}: row {place}", row
