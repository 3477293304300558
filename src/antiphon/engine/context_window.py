"""Which units leave a duplex session's context, and what stays of them: plain decisions, no tensors.

The context of a session is `prefix | previous | suffix | units | rows of an unfinished unit`: the prefix is the system
text and the reference voice, *previous* the words of dropped units (mode `context` only), the suffix closes the system
message.
Source: model specification, section 5.4.
"""

from collections.abc import Set
from dataclasses import dataclass, replace
from enum import Enum

from antiphon.core.errors import ConfigError

Span = tuple[int, int]


class WindowMode(Enum):
    """`OFF` grows without limit, `BASIC` counts tokens, `CONTEXT` counts units and keeps the words of dropped ones."""

    OFF = "off"
    BASIC = "basic"
    CONTEXT = "context"


@dataclass(frozen=True, kw_only=True)
class WindowConfig:
    """Limits of the three modes; each mode reads only its own. Nothing happens before a limit is exceeded."""

    mode: WindowMode = WindowMode.OFF
    high_tokens: int = 8000
    low_tokens: int = 6000
    max_units: int = 24
    max_previous_ids: int = 500  # without the marker in front of them

    def __post_init__(self) -> None:
        if not 0 <= self.low_tokens <= self.high_tokens:
            raise ConfigError(
                f"window: low_tokens {self.low_tokens} must lie in 0 … high_tokens ({self.high_tokens}); lower it"
            )
        if self.max_units < 1 or self.max_previous_ids < 1:
            raise ConfigError("window: max_units and max_previous_ids must be at least 1")


@dataclass(frozen=True, kw_only=True)
class Unit:
    """One finished unit in the context.

    `length` counts its own rows; `num_orphans` the rows of failed attempts (a lone `<unit>` each) right before it.
    """

    id: int
    length: int
    kind: str  # audio, vision, omni or text
    is_listen: bool
    content_ids: tuple[int, ...] = ()  # collected ids: without the first token of the unit and without its terminator
    text: str = ""
    num_orphans: int = 0


@dataclass(frozen=True)
class Cut:
    """What to do with the cache: keep the rows of *prefix*, compute *refeed_ids* anew after them, append *tail*.

    The rows of *tail* move to `length − (tail[1] − tail[0])`, so their keys turn by the difference.
    """

    prefix: Span
    refeed_ids: tuple[int, ...]
    tail: Span
    length: int  # rows after the cut
    dropped: tuple[Unit, ...]


class ContextWindow:
    """The unit list of one session and the rule that shortens it.

    Invariant: the cache holds `num_preserved` rows, then the units in order, then rows not yet in a unit.

    Attributes:
        units: what the context still holds.
        content_ids: the kept words of dropped units.
        num_dropped_tokens: rows the context was shortened by in all; words put in their place count against it.
        num_cuts: cuts in mode `BASIC`, dropped units in mode `CONTEXT`.
    """

    def __init__(self, config: WindowConfig, *, marker_ids: tuple[int, ...] = (), special_ids: Set[int] = frozenset()):
        self.config = config
        self.units: list[Unit] = []
        self.content_ids: tuple[int, ...] = ()
        self.num_dropped_tokens = 0
        self.num_cuts = 0
        self._marker_ids = marker_ids
        self._special_ids = special_ids
        self._prefix_len = 0
        self._suffix_ids: tuple[int, ...] = ()

    def begin(self, prefix_len: int, suffix_ids: tuple[int, ...]) -> None:
        """Start with a system part of *prefix_len* rows and the ids that close it."""
        self._prefix_len, self._suffix_ids = prefix_len, suffix_ids

    @property
    def previous_ids(self) -> tuple[int, ...]:
        """What stands between prefix and suffix: marker and kept words, or nothing while there are no words."""
        return self._marker_ids + self.content_ids if self.content_ids else ()

    @property
    def num_preserved(self) -> int:
        """Rows in front of the first unit."""
        return self._prefix_len + len(self.previous_ids) + len(self._suffix_ids)

    def add(self, unit: Unit, cache_len: int) -> Cut | None:
        """Append a finished unit to a context of *cache_len* rows; returns what must be cut now, if anything."""
        self.units.append(unit)
        if self.config.mode is WindowMode.BASIC:
            return self._cut_to_tokens(cache_len)
        if self.config.mode is WindowMode.CONTEXT:
            return self._cut_to_units(cache_len)
        return None

    def lengthen_last(self, num_rows: int) -> None:
        """The newest unit got rows that it did not have when it was added; the next one decides on a cut."""
        self.units[-1] = replace(self.units[-1], length=self.units[-1].length + num_rows)

    def _cut_to_tokens(self, cache_len: int) -> Cut | None:
        if cache_len <= self.config.high_tokens:
            return None
        num_dropped, remaining = 0, cache_len
        while num_dropped < len(self.units) and remaining > self.config.low_tokens:
            remaining -= _rows(self.units[num_dropped])
            num_dropped += 1
        if num_dropped == 0:
            return None
        preserved = self.num_preserved
        self.num_cuts += 1
        self.num_dropped_tokens += cache_len - remaining
        return Cut(
            prefix=(0, preserved),
            refeed_ids=(),
            tail=(preserved + cache_len - remaining, cache_len),
            length=remaining,
            dropped=self._drop(num_dropped),
        )

    def _cut_to_units(self, cache_len: int) -> Cut | None:
        num_dropped = len(self.units) - self.config.max_units
        if num_dropped <= 0:
            return None
        old_preserved = self.num_preserved
        dropped = self._drop(num_dropped)
        for unit in dropped:
            if not unit.is_listen:
                words = tuple(token for token in unit.content_ids if token not in self._special_ids)
                self.content_ids = (self.content_ids + words)[-self.config.max_previous_ids :]
        self.num_cuts += num_dropped
        tail = (old_preserved + sum(map(_rows, dropped)), cache_len)
        length = self.num_preserved + tail[1] - tail[0]
        self.num_dropped_tokens += cache_len - length
        # Previous and suffix are always computed anew, the suffix because it sees the previous words.
        return Cut(
            prefix=(0, self._prefix_len),
            refeed_ids=self.previous_ids + self._suffix_ids,
            tail=tail,
            length=length,
            dropped=dropped,
        )

    def _drop(self, num_units: int) -> tuple[Unit, ...]:
        dropped, self.units = tuple(self.units[:num_units]), self.units[num_units:]
        return dropped


def _rows(unit: Unit) -> int:
    return unit.length + unit.num_orphans
