"""Flatten a configuration to rows of path, value and origin, for people and for golden files."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass

from antiphon.config.deploy import THINKER_KEYS, ZEROMQ, ZEROMQ_KEYS, DeployConfig


def rows(config: DeployConfig) -> list[tuple[str, object, str]]:
    """Every value in force with its dotted path and where it came from, in the order of the types."""
    return [
        (path, value, str(config.origin(path)))
        for path, value in _walk(config, "")
        if not path.startswith("origins") and not _is_idle(config, path)
    ]


def _is_idle(config: DeployConfig, path: str) -> bool:
    """A field of a type that serves all stages, or all connectors, where this one has no use for it."""
    parts = path.split(".")
    if parts[0] == "connectors":
        return parts[-1] in ZEROMQ_KEYS and config.connectors[parts[1]].name != ZEROMQ
    return parts[0] == "stages" and parts[1] != "0" and parts[2] in THINKER_KEYS


def _walk(value: object, path: str) -> Iterator[tuple[str, object]]:
    if is_dataclass(value) and not isinstance(value, type):
        items = [(item.name, getattr(value, item.name)) for item in fields(value)]
    elif isinstance(value, tuple) and value and is_dataclass(value[0]):
        items = [(str(index), item) for index, item in enumerate(value)]
    elif isinstance(value, Mapping) and value:
        items = [(_key(path, key), item) for key, item in value.items()]
    else:
        yield path, dict(value) if isinstance(value, Mapping) else list(value) if isinstance(value, tuple) else value
        return
    for name, item in items:
        yield from _walk(item, f"{path}.{name}" if path else name)


def _key(path: str, key: object) -> str:
    """Connectors are keyed by stage id inside, and spelled `to_stage_N` in files."""
    kind = path.rpartition(".")[2]
    prefix = {"output_connectors": "to_stage_", "input_connectors": "from_stage_"}.get(kind, "")
    return f"{prefix}{key}"
