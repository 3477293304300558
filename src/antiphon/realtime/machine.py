"""The one method that fires transitions; each machine's table lies in a file of its own."""

from collections.abc import Mapping
from enum import Enum
from typing import Generic, TypeVar

from antiphon.core.errors import StateError

S = TypeVar("S", bound=Enum)
E = TypeVar("E", bound=Enum)


class Machine(Generic[S, E]):
    """A state, and the table `(state, event) → state` that alone may change it."""

    def __init__(self, name: str, table: Mapping[tuple[S, E], S], start: S) -> None:
        self._name = name
        self._table = table
        self.state = start

    def can(self, event: E) -> bool:
        return (self.state, event) in self._table

    def fire(self, event: E) -> S:
        """Raises StateError, which names both, for an event that the state does not know; nothing changes then."""
        target = self._table.get((self.state, event))
        if target is None:
            raise StateError(f"{self._name}: {event.value} is not possible in state {self.state.value}")
        self.state = target
        return target
