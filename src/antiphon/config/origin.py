"""Configuration trees whose every leaf remembers where its value was written."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias


class OriginKind(Enum):
    """Where a value can come from, weakest first: a later kind wins over an earlier one."""

    CODE = "code default"
    BASE_FILE = "base file"
    FILE = "file"
    PLATFORM = "platform overlay"
    FLAG = "command line"
    STAGE_OVERRIDE = "stage override"
    ENVIRONMENT = "environment"


@dataclass(frozen=True)
class Origin:
    """`where` is the file with its line, the flag or the variable; empty for a plain code default."""

    kind: OriginKind
    where: str = ""

    def __str__(self) -> str:
        return f"{self.kind.value} ({self.where})" if self.where else self.kind.value


@dataclass(frozen=True)
class Sourced:
    """A leaf. A value of None was written as null: it clears what a weaker layer said."""

    value: object
    origin: Origin


# Stages are keyed by their id, "0", "1", …, in the order they were listed.
Tree: TypeAlias = "dict[str, Sourced | Tree]"

NULL_MEANS_SOMETHING = "duplex_session"  # idle_ttl_s: null is "never", so a null there is a value and no clearing


def source(values: Mapping[str, object], origin: Origin) -> Tree:
    """Turn plain nested mappings into a tree of one origin."""
    return {
        str(key): source(value, origin) if isinstance(value, Mapping) else Sourced(value, origin)
        for key, value in values.items()
    }


def plain(tree: Tree) -> dict[str, object]:
    """Turn a tree into nested dicts without its cleared values."""
    found: dict[str, object] = {}
    for key, node in tree.items():
        if key == NULL_MEANS_SOMETHING and isinstance(node, dict):
            found[key] = {name: leaf.value for name, leaf in node.items() if isinstance(leaf, Sourced)}
        elif isinstance(node, dict):
            found[key] = plain(node)
        elif node.value is not None:
            found[key] = node.value
    return found


def leaves(tree: Tree, prefix: str = "") -> Iterator[tuple[str, Sourced]]:
    """Every leaf with its dotted path."""
    for key, node in tree.items():
        if isinstance(node, dict):
            yield from leaves(node, f"{prefix}{key}.")
        else:
            yield prefix + key, node


def branch(tree: Tree, *keys: str) -> Tree:
    """The mapping under *keys*; an empty one where it is missing or is no mapping."""
    for key in keys:
        node = tree.get(key)
        if not isinstance(node, dict):
            return {}
        tree = node
    return tree


def grow(tree: Tree, *keys: str) -> Tree:
    """The mapping under *keys*, made where it is missing."""
    for key in keys:
        node = tree.get(key)
        if not isinstance(node, dict):
            node = tree[key] = {}
        tree = node
    return tree


def whereabouts(tree: Tree, path: tuple[str, ...], default: str) -> str:
    """The place of the value at *path*, of the first value beneath it, or of the nearest one around it."""
    for length in range(len(path), -1, -1):
        node: Sourced | Tree | None = tree
        for key in path[:length]:
            node = node.get(key) if isinstance(node, dict) else None
        if isinstance(node, Sourced):
            return node.origin.where
        if node and length == len(path):
            first = next(leaves(node), None)
            if first is not None:
                return first[1].origin.where
    return default
