"""A whole comparison: what differed, and each level's figures; as a table and as JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from antiphon.bench.compare.figures import Figure, compare_levels
from antiphon.bench.compare.result_reading import Document, Result
from antiphon.bench.compare.workload import Difference, require_same_workload, serving_differences

_LABEL_WIDTH, _NUMBER_WIDTH = 34, 12


@dataclass(frozen=True, kw_only=True)
class LevelComparison:
    """One level. `warnings` say what makes its figures doubtful."""

    name: str
    figures: Sequence[Figure]
    warnings: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    first: str
    second: str
    differences: dict[str, Difference]
    levels: Sequence[LevelComparison]

    def regressions(self, max_share: float) -> list[str]:
        """For each level that has any: its figures that are worse by more than *max_share*, chance aside.

        Percentiles have no interval and jump from run to run, so they alone are no regression.
        """
        found = []
        for level in self.levels:
            worse = [
                figure.label
                for figure in level.figures
                if figure.worsening > max_share
                and not figure.is_percentile
                and (figure.interval is None or 1.0 not in figure.interval)
            ]
            if worse:
                found.append(f"{level.name}: {', '.join(worse)}")
        return found


def compare(first: Result, second: Result, *, ignored: Sequence[str] = ()) -> Comparison:
    """Compare two results of the same work.

    Raises:
        ConfigError: they measured different work; the message says in which fields.
    """
    require_same_workload(first, second, ignored)
    levels = [
        LevelComparison(
            name=_level_name(one),
            figures=compare_levels(one, other, is_paired=not ignored),
            warnings=tuple(_warn(one, other)),
        )
        for one, other in zip(first.levels, second.levels, strict=False)
    ]
    return Comparison(
        first=first.name, second=second.name, differences=serving_differences(first, second), levels=levels
    )  # fmt: skip


def render_comparison(comparison: Comparison) -> str:
    """The printed report."""
    return "\n".join(_lines(comparison))


def comparison_document(comparison: Comparison) -> dict[str, object]:
    """The same for machines."""
    return {
        "first": comparison.first,
        "second": comparison.second,
        "differences": {name: list(values) for name, values in comparison.differences.items()},
        "levels": [
            {
                "level": level.name,
                "warnings": list(level.warnings),
                "figures": {figure.key: _figure_document(figure) for figure in level.figures},
            }
            for level in comparison.levels
        ],
    }


def _lines(comparison: Comparison) -> Iterator[str]:
    yield f"A: {comparison.first}"
    yield f"B: {comparison.second}"
    if comparison.differences:
        yield "\nWhat differed:"
        for name, (before, after) in comparison.differences.items():
            yield f"  {name}: {_word(before)} → {_word(after)}"
    else:
        yield "\nNothing that the files tell differed."
    for level in comparison.levels:
        yield f"\n{level.name}"
        yield (f"  {'':<{_LABEL_WIDTH}}{'A':>{_NUMBER_WIDTH}}{'B':>{_NUMBER_WIDTH}}{'B/A':>8}{'95 % interval':>18}")
        for figure in level.figures:
            interval = figure.interval
            span = f"{interval.low:.3f} … {interval.high:.3f}" if interval else ""
            ratio = f"{figure.ratio:.3f}" if figure.ratio is not None else "–"
            yield (
                f"  {figure.label:<{_LABEL_WIDTH}}{figure.first:>{_NUMBER_WIDTH}.3f}"
                f"{figure.second:>{_NUMBER_WIDTH}.3f}{ratio:>8}{span:>18}  {figure.change.value}"
            ).rstrip()
        for warning in level.warnings:
            yield f"  ! {warning}"


def _warn(first: Document, second: Document) -> Iterator[str]:
    for name, level in (("A", first), ("B", second)):
        if level.get("failed"):
            yield f"{name}: {level['failed']} requests failed, which its figures leave out"
    for key, what in (("total_output_tokens", "text"), ("total_audio_duration_s", "speech")):
        made = [level.get(key) for level in (first, second)]
        if isinstance(made[0], (int, float)) and isinstance(made[1], (int, float)) and made[0]:
            drift = made[1] / made[0] - 1
            if abs(drift) > 0.02:
                yield f"B made {drift:+.1%} {what}: latencies follow the length of answers"
    if not all("e2els" in level for level in (first, second)):
        yield "no intervals without the requests' own values; measure with --save-detailed"


def _figure_document(figure: Figure) -> dict[str, object]:
    interval = figure.interval
    return {
        "a": figure.first,
        "b": figure.second,
        "ratio": figure.ratio,
        "interval": [interval.low, interval.high] if interval else None,
        "change": figure.change.value or None,
    }


def _level_name(level: Document) -> str:
    limit = level.get("max_concurrency")
    return f"{level.get('num_prompts', level.get('completed'))} requests, " + (
        f"concurrency {limit}" if limit else "no limit of concurrency"
    )


def _word(value: object) -> str:
    return "not told" if value is None else str(value)
