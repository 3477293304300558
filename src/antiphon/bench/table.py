"""The printed report of one level, line by line as scripts written for vLLM-Omni's benchmark look for it."""

from collections.abc import Iterator, Sequence
from math import inf

from antiphon.bench.metric_names import MetricName
from antiphon.bench.percentiles import Distribution, percent_word
from antiphon.bench.settings import Level, RunSettings
from antiphon.bench.summary import LevelSummary

WIDTH = 50
_LABEL_WIDTH = 40


def render_table(summary: LevelSummary, level: Level, settings: RunSettings) -> str:
    """The whole report, without a line break at its end."""
    return "\n".join(_lines(summary, level, settings))


def _lines(summary: LevelSummary, level: Level, settings: RunSettings) -> Iterator[str]:
    yield _banner("Serving Benchmark Result", "=")
    yield _line("Successful requests:", summary.completed)
    yield _line("Failed requests:", summary.failed)
    if level.max_concurrency is not None:
        yield _line("Maximum request concurrency:", level.max_concurrency)
    if settings.request_rate != inf:
        yield _line("Request rate configured (RPS):", settings.request_rate)
        yield _line("Worst delay of a send (s):", summary.worst_lateness_s)
    yield _line("Benchmark duration (s):", summary.duration_s)
    yield _line("Request throughput (req/s):", summary.per_s(summary.completed))
    if summary.num_good is not None:
        yield _line("Request goodput (req/s):", summary.per_s(summary.num_good))
    yield _line("Peak concurrent requests:", summary.peak_concurrency)
    for stage, figures in summary.stages.items() if settings.has_stage_table else ():
        if (duration := figures.duration_ms) is not None:
            yield _line(f"Stage {stage} mean duration (ms):", duration.mean)
    yield from _metrics(summary, [metric for metric in settings.metrics if metric.name == "e2el"])
    yield _banner("Text Result", "=")
    yield _line("Total input tokens:", summary.prompt_tokens)
    yield _line("Total generated tokens:", summary.output_tokens)
    yield _line("Output token throughput (tok/s):", summary.per_s(summary.output_tokens))
    yield _line("Peak output token throughput (tok/s):", summary.peak_tokens_per_s)
    yield _line("Peak concurrent requests:", summary.peak_concurrency)
    yield _line("Total Token throughput (tok/s):", summary.per_s(summary.prompt_tokens + summary.output_tokens))
    if summary.output_tokens:
        yield from _metrics(
            summary, [metric for metric in settings.metrics if not metric.is_audio and metric.name != "e2el"]
        )
    if summary.continuity_ok_rate is not None:
        yield _banner("Audio Result", "=")
        yield _line("Total audio duration generated(s):", summary.audio_duration_s)
        yield _line("Total audio frames generated:", summary.num_audio_frames)
        yield _line("Audio throughput(audio duration/s):", summary.per_s(summary.audio_duration_s))
        yield _line("Streaming continuity OK rate:", f"{summary.continuity_ok_rate:.2%}")
        if summary.num_without_audio:
            yield _line("Requests without audio (count as 0):", summary.num_without_audio)
        yield from _metrics(summary, [metric for metric in settings.metrics if metric.is_audio])
    if settings.has_stage_table and summary.stages:
        yield _banner("Stage Benchmark Result", "=")
        for stage, figures in summary.stages.items():
            yield _banner(f"Stage {stage}", "-")
            for label, distribution in figures.figures.items():
                yield _line(f"Mean {label}:", distribution.mean)
    yield "=" * WIDTH


def _metrics(summary: LevelSummary, metrics: Sequence[MetricName]) -> Iterator[str]:
    for metric in metrics:
        distribution = summary.distributions.get(metric.name)
        if distribution is not None:
            yield _banner(metric.title, "-")
            yield from _distribution(metric, distribution)


def _distribution(metric: MetricName, distribution: Distribution) -> Iterator[str]:
    yield _line(f"Mean {metric.label}:", distribution.mean * metric.scale)
    yield _line(f"Median {metric.label}:", distribution.median * metric.scale)
    for percent, value in distribution.percentiles:
        yield _line(f"P{percent_word(percent)} {metric.label}:", value * metric.scale)


def _banner(title: str, fill: str) -> str:
    return f" {title} ".center(WIDTH, fill) if fill == "=" else title.center(WIDTH, fill)


def _line(label: str, value: float | str) -> str:
    word = f"{value:.2f}" if isinstance(value, float) else str(value)
    return f"{label:<{_LABEL_WIDTH}} {word}"
