"""Is the second run better? Only items that both have are looked at, each against itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from antiphon.core.errors import ConfigError
from antiphon.evals.compare.reading import ReadReport
from antiphon.evals.metrics import METRICS, Better, Metric
from antiphon.statistics.resampling import Interval, bootstrap_difference
from antiphon.statistics.sign_flip import sign_flip_p_value

MIN_ITEMS = 6  # whatever fewer pairs say, chance says it in one of sixteen runs


class Verdict(Enum):
    """Whether the difference is more than chance, and which way it goes."""

    BETTER = "better"
    WORSE = "worse"
    DIFFERENT = "different"  # of a metric that has no better way
    NOT_SHOWN = "not shown"
    TOO_FEW = "too few items"


@dataclass(frozen=True)
class Difference:
    """One metric: means over the shared items, and the interval of second − first.

    `p_value` is of the paired randomisation test: how often chance alone makes as large a difference.
    """

    metric: Metric
    count: int
    first: float
    second: float
    interval: Interval | None
    p_value: float
    verdict: Verdict

    @property
    def change(self) -> float:
        return self.second - self.first


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Both reports, what differs, and how many items stand in one of them only."""

    first: ReadReport
    second: ReadReport
    differences: Sequence[Difference]
    num_shared: int
    num_only_first: int
    num_only_second: int
    confidence: float


def compare(first: ReadReport, second: ReadReport, *, confidence: float = 0.95, seed: int = 0) -> Comparison:
    """Compare two reports.

    Raises:
        ConfigError: other kinds, data sets or scorers, items of one id that were held against other truths, or no
            item in common.
    """
    _check_same(first, second)
    shared = [item_id for item_id in first.items if item_id in second.items]
    if not shared:
        raise ConfigError(f"{first.path} and {second.path} have no item in common")
    changed = [i for i in shared if first.items[i].truth_digest != second.items[i].truth_digest]
    if changed:
        raise ConfigError(
            f"{first.path} and {second.path} are of different data: {len(changed)} items, as {changed[0]!r}, were held "
            "against other words, letters or voices"
        )
    differences = []
    for name, metric in METRICS.items():
        pairs = [
            (first.items[i].values[name], second.items[i].values[name])
            for i in shared
            if name in first.items[i].values and name in second.items[i].values
        ]
        if pairs:
            differences.append(_difference(metric, pairs, confidence, seed))
    return Comparison(
        first=first,
        second=second,
        differences=differences,
        num_shared=len(shared),
        num_only_first=len(first.items) - len(shared),
        num_only_second=len(second.items) - len(shared),
        confidence=confidence,
    )


def _difference(metric: Metric, pairs: Sequence[tuple[float, float]], confidence: float, seed: int) -> Difference:
    interval = bootstrap_difference(pairs, confidence=confidence, seed=seed)
    p_value = sign_flip_p_value([after - before for before, after in pairs], seed=seed)
    first, second = np.asarray(pairs, np.float64).mean(axis=0)
    if interval is None or len(pairs) < MIN_ITEMS:
        verdict = Verdict.TOO_FEW
    else:
        verdict = _verdict(metric, interval, p_value, confidence)
    return Difference(metric, len(pairs), float(first), float(second), interval, p_value, verdict)


def _verdict(metric: Metric, interval: Interval, p_value: float, confidence: float) -> Verdict:
    """Both must speak for a difference: with few items that differ a bootstrap's interval is too narrow."""
    if 0.0 in interval or p_value > 1 - confidence:
        return Verdict.NOT_SHOWN
    if metric.better is Better.NEITHER:
        return Verdict.DIFFERENT
    is_lower = interval.high < 0
    return Verdict.BETTER if is_lower == (metric.better is Better.LOWER) else Verdict.WORSE


def _check_same(first: ReadReport, second: ReadReport) -> None:
    for name, one, other in (("kinds", first.kind, second.kind), ("data sets", first.dataset, second.dataset)):
        if one != other:
            raise ConfigError(f"{first.path} and {second.path} are of different {name}: {one!r} and {other!r}")
    for part in sorted({*first.scorers} & {*second.scorers}):
        if first.scorers[part] != second.scorers[part]:
            raise ConfigError(
                f"{first.path} and {second.path} have other scorers of {part}: {_scorer_text(first.scorers[part])} "
                f"and {_scorer_text(second.scorers[part])}; their scales differ, score both with one"
            )


def _scorer_text(scorer: Mapping[str, object]) -> str:
    settings = scorer.get("settings")
    facts = ", ".join(f"{key} {value}" for key, value in settings.items()) if isinstance(settings, dict) else ""
    return f"{scorer.get('name')} {scorer.get('version')}" + (f" ({facts})" if facts else "")
