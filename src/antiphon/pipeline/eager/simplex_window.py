"""Which rounds leave a simplex session's context: the reference's bookkeeping, oddities included, in plain numbers.

Specification, section 2.10. Parity only: the rule registers answers with the length of their text encoded again (not
with what the cache holds), leaves text-only answers out, never drops the first round, and the caller then cuts the
counted number of rows right behind the system part, whoever they belong to.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class RoundEntry:
    """One registered segment or answer. `round_id` counts questions with answers; the system has 0, as the first."""

    role: str
    length: int
    round_id: int


class RoundWindow:
    """Registered entries in order. Above `high_tokens` rows whole rounds leave until at most `low_tokens` remain."""

    def __init__(self, *, high_tokens: int = 8000, low_tokens: int = 6000) -> None:
        self.high_tokens = high_tokens
        self.low_tokens = low_tokens
        self.entries: list[RoundEntry] = []
        self.num_dropped_tokens = 0

    @property
    def round_id(self) -> int:
        """Round of the latest entry; 0 before any."""
        return self.entries[-1].round_id if self.entries else 0

    def register(self, role: str, length: int) -> None:
        """Add an entry: a segment behind an answer opens the next round."""
        is_next = role != "assistant" and bool(self.entries) and self.entries[-1].role == "assistant"
        self.entries.append(RoundEntry(role, length, self.round_id + is_next))

    def drop(self, cache_len: int) -> int:
        """Drop rounds of a context of *cache_len* rows; returns how many rows to cut behind the system part."""
        if cache_len <= self.high_tokens:
            return 0
        kept_ids = {entry.round_id for entry in self.entries if entry.role == "system"}
        num_rows = 0
        while cache_len - num_rows > self.low_tokens:
            droppable = {entry.round_id for entry in self.entries} - kept_ids
            if not droppable:
                break
            oldest = min(droppable)
            num_rows += sum(entry.length for entry in self.entries if entry.round_id == oldest)
            self.entries = [entry for entry in self.entries if entry.round_id != oldest]
        self.num_dropped_tokens += num_rows
        return num_rows
