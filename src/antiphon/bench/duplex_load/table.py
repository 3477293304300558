"""The printed report of one level of live sessions, in the shape of the other backends' reports."""

from collections.abc import Iterator, Sequence

from antiphon.bench.duplex_load.summary import FIGURES, DuplexSummary
from antiphon.bench.percentiles import percent_word
from antiphon.bench.settings import Level

WIDTH = 50
_LABEL_WIDTH = 40


def render_duplex_table(summary: DuplexSummary, level: Level) -> str:
    """The whole report, without a line break at its end."""
    return "\n".join(_lines(summary, level))


def render_duplex_sweep(results: Sequence[tuple[Level, DuplexSummary]]) -> str:
    """One line for each number of sessions; milliseconds."""
    head = f"{'sessions':>8} {'failed':>6} {'late':>6} {'decision p50/p99':>18} {'audio p50/p99':>18} {'RTF p50':>8}"
    rows = [head]
    for level, summary in results:
        rtf = summary.distributions.get("audio_rtf")
        rows.append(
            f"{level.max_concurrency or level.num_prompts:>8} {summary.failed:>6} {summary.num_units_late:>6} "
            f"{_pair(summary, 'unit_decision'):>18} {_pair(summary, 'unit_first_audio'):>18} "
            f"{'-' if rtf is None else f'{rtf.median:.3f}':>8}"
        )
    return "\n".join(rows)


def _pair(summary: DuplexSummary, name: str) -> str:
    found = summary.distributions.get(name)
    if found is None:
        return "-"
    worst = found.percentiles[-1][1] if found.percentiles else found.median
    return f"{found.median * 1000:.1f}/{worst * 1000:.1f}"


def _lines(summary: DuplexSummary, level: Level) -> Iterator[str]:
    yield _banner("Serving Benchmark Result", "=")
    yield _line("Successful requests:", summary.completed)
    yield _line("Failed requests:", summary.failed)
    if level.max_concurrency is not None:
        yield _line("Maximum request concurrency:", level.max_concurrency)
    yield _line("Benchmark duration (s):", summary.duration_s)
    yield _line("Worst delay of a send (ms):", summary.worst_send_delay_s * 1000)
    if summary.num_slot_waits:
        yield _line("Waits for a free session:", summary.num_slot_waits)
    yield _banner("Duplex Result", "=")
    yield _line("Units of input (1 s):", summary.num_units)
    yield _line("Units answered:", summary.num_units_answered)
    yield _line("Units spoken in:", summary.num_units_spoken)
    yield _line("Units late:", summary.num_units_late)
    yield _line("Responses:", summary.num_responses)
    for code, count in summary.notices.items():
        yield _line(f"Warnings {code}:", count)
    yield from _figures(summary, ("unit_decision", "unit_first_audio", "unit_lateness"))
    if summary.num_audio_frames:
        yield _banner("Audio Result", "=")
        yield _line("Total audio duration generated(s):", summary.audio_duration_s)
        yield _line("Total audio frames generated:", summary.num_audio_frames)
        yield _line("Audio throughput(audio duration/s):", summary.per_s(summary.audio_duration_s))
        if summary.continuity_ok_rate is not None:
            yield _line("Streaming continuity OK rate:", f"{summary.continuity_ok_rate:.2%}")
    rest = [figure.name for figure in FIGURES if not figure.name.startswith("unit_")]
    yield from _figures(summary, rest)
    yield "=" * WIDTH


def _figures(summary: DuplexSummary, names: Sequence[str]) -> Iterator[str]:
    for figure in FIGURES:
        found = summary.distributions.get(figure.name) if figure.name in names else None
        if found is None:
            continue
        yield _banner(figure.title, "-")
        yield _line(f"Mean {figure.label}:", found.mean * figure.scale)
        yield _line(f"Median {figure.label}:", found.median * figure.scale)
        for percent, value in found.percentiles:
            if percent != 50:
                yield _line(f"P{percent_word(percent)} {figure.label}:", value * figure.scale)


def _banner(title: str, fill: str) -> str:
    return f" {title} ".center(WIDTH, fill) if fill == "=" else title.center(WIDTH, fill)


def _line(label: str, value: float | str) -> str:
    word = f"{value:.2f}" if isinstance(value, float) else str(value)
    return f"{label:<{_LABEL_WIDTH}} {word}"
