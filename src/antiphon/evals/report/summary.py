"""Sums up the values of many items: means with bootstrap intervals, also of groups."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from antiphon.evals.metrics import METRICS
from antiphon.evals.scoring.scored import Scored
from antiphon.statistics.resampling import Interval, bootstrap_interval

# By these groups are told apart; the others would fill pages.
_GROUPED = ("wer", "accuracy")


@dataclass(frozen=True)
class Figure:
    """One metric over some items. `interval` is of the mean, None for a single item."""

    count: int
    mean: float
    median: float
    interval: Interval | None

    def as_json(self) -> dict[str, object]:
        return {
            "count": self.count,
            "mean": self.mean,
            "median": self.median,
            "low": None if self.interval is None else self.interval.low,
            "high": None if self.interval is None else self.interval.high,
        }


Figures = Mapping[str, Figure]  # by the metric's name


def figures_of(items: Sequence[Scored], seed: int, *, names: Sequence[str] = tuple(METRICS)) -> dict[str, Figure]:
    """A figure of each metric that some item has, in the metrics' order."""
    found: dict[str, Figure] = {}
    for name in names:
        values = [item.marks.values[name] for item in items if name in item.marks.values]
        if values:
            interval = bootstrap_interval(values, seed=seed)
            found[name] = Figure(len(values), float(np.mean(values)), float(np.median(values)), interval)
    return found


def groups_of(items: Sequence[Scored], seed: int) -> dict[str, dict[str, dict[str, Figure]]]:
    """Kind of group → group → its figures, in the order in which the items bring them."""
    found: dict[str, dict[str, dict[str, Figure]]] = {}
    for kind in dict.fromkeys(kind for item in items for kind in item.groups):
        names = dict.fromkeys(item.groups[kind] for item in items if kind in item.groups)
        rows = {
            name: figures_of([item for item in items if item.groups.get(kind) == name], seed, names=_GROUPED)
            for name in names
        }
        if kept := {name: row for name, row in rows.items() if row}:
            found[kind] = kept
    return found


def corpus_rate(items: Sequence[Scored]) -> float | None:
    """All word errors ÷ all words; None where none were counted. The mean weighs short utterances like long ones."""
    counted = [item for item in items if "wer" in item.marks.values]
    units = [_count(item, "num_units") for item in counted]
    if not sum(units):
        return None
    return sum(item.marks.values["wer"] * size for item, size in zip(counted, units, strict=True)) / sum(units)


def count_where(items: Sequence[Scored], condition: Callable[[Scored], bool]) -> int:
    return sum(1 for item in items if condition(item))


def _count(item: Scored, name: str) -> float:
    value = item.marks.details.get(name)
    return float(value) if isinstance(value, (int, float)) else 0.0
