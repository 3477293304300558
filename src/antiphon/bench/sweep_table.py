"""The levels of a run side by side, as a Markdown table."""

from collections.abc import Sequence

from antiphon.bench.metric_names import METRICS
from antiphon.bench.percentiles import percent_word
from antiphon.bench.result_file import LevelResult

_COLUMNS = ("ttft", "tpot", "audio_ttfp", "audio_rtf", "audio_underrun", "e2el")


def render_sweep(results: Sequence[LevelResult]) -> str:
    """One row per level: medians, and the highest percentile asked for; a metric that no level has is left out."""
    names = [name for name in _COLUMNS if any(name in result.summary.distributions for result in results)]
    percent = max(
        (
            percent
            for result in results
            for found in result.summary.distributions.values()
            for percent, _ in found.percentiles
        ),
        default=None,
    )
    header = ["concurrency", "ok/requests"]
    for name in names:
        header += [f"{METRICS[name].label} p50"] + ([] if percent is None else [f"p{percent_word(percent)}"])
    header += ["req/s", "tok/s", "audio s/s"]
    rows = [_row(result, names, percent) for result in results]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, ["---:"] * len(header), *rows))


def _row(result: LevelResult, names: Sequence[str], percent: float | None) -> list[str]:
    summary = result.summary
    cells = [
        str(result.level.max_concurrency or "unlimited"),
        f"{summary.completed}/{summary.completed + summary.failed}",
    ]
    for name in names:
        found, metric = summary.distributions.get(name), METRICS[name]
        digits = 1 if metric.ending == "ms" else 3
        if found is None:
            cells += ["–"] * (1 if percent is None else 2)
            continue
        cells.append(f"{found.median * metric.scale:.{digits}f}")
        if percent is not None:
            cells.append(f"{dict(found.percentiles)[percent] * metric.scale:.{digits}f}")
    rates = (summary.completed, summary.output_tokens, summary.audio_duration_s)
    return [*cells, *(f"{summary.per_s(amount):.2f}" for amount in rates)]
