"""Puts the figures of two levels side by side: ratio, interval, and whether the change is one."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import fmean

from antiphon.bench.compare.result_reading import Document
from antiphon.bench.metric_names import METRICS, MetricName
from antiphon.statistics.resampling import (
    Interval,
    Statistic,
    bootstrap_paired_ratio,
    bootstrap_ratio,
    row_means,
    row_medians,
)

# Rates and shares of a level, of which more is better.
_RATES = {
    "request_throughput": "Request throughput (req/s)",
    "request_goodput": "Request goodput (req/s)",
    "output_throughput": "Output throughput (tok/s)",
    "total_token_throughput": "Total throughput (tok/s)",
    "audio_throughput": "Audio throughput (s/s)",
    "audio_continuity_ok_rate": "Continuity OK rate",
}
_LESS_IS_BETTER = frozenset({"ttft", "tpot", "itl", "e2el", "audio_ttfp", "audio_rtf", "audio_underrun"})
_LISTS = {
    "ttft": "ttfts",
    "e2el": "e2els",
    "audio_ttfp": "audio_ttfps",
    "audio_rtf": "audio_rtfs",
    "audio_duration": "audio_durations",
    "audio_underrun": "audio_underruns",
    "tpot": "itls",
}
_STATISTICS: Mapping[str, Statistic] = {"mean": row_means, "median": row_medians}


class Change(Enum):
    """What a figure says about the second result. Without an interval nobody can tell."""

    BETTER = "better"
    WORSE = "worse"
    NONE = "no change shown"
    UNKNOWN = ""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One line of a comparison. `interval` is of `ratio`, second ÷ first, over requests."""

    key: str  # as in result files
    label: str
    first: float
    second: float
    ratio: float | None
    interval: Interval | None
    change: Change

    @property
    def is_percentile(self) -> bool:
        return self.key.partition("_")[0] not in _STATISTICS and self.key not in _RATES

    @property
    def worsening(self) -> float:
        """By which share the second is worse, 0.05 for five per cent; below 0 it is better."""
        if self.ratio is None:
            return 0.0
        return 1 - self.ratio if self.key in _RATES else self.ratio - 1


def compare_levels(first: Document, second: Document, *, is_paired: bool) -> list[Figure]:
    """All figures that both levels have, rates first. *is_paired*: request i is the same one in both."""
    figures = [
        _figure(key, label, first, second, interval=None, less_is_better=False)
        for key, label in _RATES.items()
        if _number(first, key) is not None and _number(second, key) is not None
    ]
    for metric in METRICS.values():
        for prefix in _prefixes(first, metric):
            key = f"{prefix}_{metric.key}"
            if _number(second, key) is None:
                continue
            figures.append(
                _figure(
                    key,
                    f"{prefix.capitalize()} {metric.label}",
                    first,
                    second,
                    interval=_interval(first, second, metric.name, prefix, is_paired=is_paired),
                    less_is_better=metric.name in _LESS_IS_BETTER,
                )
            )
    return figures


def _figure(
    key: str, label: str, first: Document, second: Document, *, interval: Interval | None, less_is_better: bool
) -> Figure:
    before, after = _number(first, key) or 0.0, _number(second, key) or 0.0
    change = Change.UNKNOWN
    if interval is not None and "audio_duration" not in key:  # neither longer nor shorter speech is better
        is_less, is_more = interval.high < 1, interval.low > 1
        better, worse = (is_less, is_more) if less_is_better else (is_more, is_less)
        change = Change.BETTER if better else Change.WORSE if worse else Change.NONE
    ratio = after / before if before else None
    return Figure(key=key, label=label, first=before, second=after, ratio=ratio, interval=interval, change=change)


def _prefixes(level: Document, metric: MetricName) -> Iterator[str]:
    """`mean`, `median`, `p99` … as far as the level has them, in the order of the file."""
    for key in level:
        prefix, _, rest = key.partition("_")
        if rest == metric.key and (prefix in _STATISTICS or prefix[:1] == "p") and _number(level, key) is not None:
            yield prefix


def _interval(first: Document, second: Document, name: str, prefix: str, *, is_paired: bool) -> Interval | None:
    """Of the ratio of a mean or median, where both files have the requests' own values."""
    statistic = _STATISTICS.get(prefix)
    before, after = (_values(level, _LISTS.get(name, "")) for level in (first, second))
    if statistic is None:
        return None
    if is_paired and len(before) == len(after):
        pairs = [pair for pair in zip(before, after, strict=True) if None not in pair]
        return bootstrap_paired_ratio([(one or 0.0, other or 0.0) for one, other in pairs], statistic)
    return bootstrap_ratio(
        [value for value in before if value is not None], [value for value in after if value is not None], statistic
    )  # fmt: skip


def _values(level: Document, key: str) -> Sequence[float | None]:
    """One value for each request, None where it failed or has none."""
    values, errors = level.get(key), level.get("errors")
    if not isinstance(values, list):
        return []
    failed = errors if isinstance(errors, list) and len(errors) == len(values) else [""] * len(values)
    read: Callable[[object], float | None] = _mean_gap if key == "itls" else _plain
    return [None if error else read(value) for value, error in zip(values, failed, strict=True)]


def _plain(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _mean_gap(value: object) -> float | None:
    gaps = [float(gap) for gap in value if isinstance(gap, (int, float))] if isinstance(value, list) else []
    return fmean(gaps) if gaps and any(gaps) else None


def _number(level: Document, key: str) -> float | None:
    return _plain(level.get(key))
