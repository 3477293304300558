"""The metrics by name: how they are chosen, printed and saved."""

from collections.abc import Mapping
from dataclasses import dataclass

from antiphon.core.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class MetricName:
    """`scale` turns seconds (RTF: a ratio) into what is printed and saved; `ending` is the unit in key and label."""

    name: str
    title: str
    ending: str  # "ms", "s" or ""
    is_audio: bool = False

    @property
    def scale(self) -> float:
        return 1000.0 if self.ending == "ms" else 1.0

    @property
    def key(self) -> str:
        """As in result files: `ttft_ms`, `audio_rtf`."""
        return f"{self.name}_{self.ending}" if self.ending else self.name

    @property
    def label(self) -> str:
        """As in tables: `TTFT (ms)`, `AUDIO_RTF`."""
        return f"{self.name.upper()} ({self.ending})" if self.ending else self.name.upper()


METRICS: Mapping[str, MetricName] = {
    metric.name: metric
    for metric in (
        MetricName(name="ttft", title="Time to First Token", ending="ms"),
        MetricName(name="tpot", title="Time per Output Token (excl. 1st token)", ending="ms"),
        MetricName(name="itl", title="Inter-token Latency", ending="ms"),
        MetricName(name="e2el", title="End-to-end Latency", ending="ms"),
        MetricName(name="audio_ttfp", title="Time to First Packet", ending="ms", is_audio=True),
        MetricName(name="audio_rtf", title="Real Time Factor", ending="", is_audio=True),
        MetricName(name="audio_duration", title="Audio Duration", ending="s", is_audio=True),
        MetricName(name="audio_underrun", title="Streaming Audio Underrun", ending="s", is_audio=True),
    )
}
STAGE_METRICS = ("ttfc", "tpoc", "icl", "tpop")  # per stage, printed with --print-stage
DEFAULT_METRICS = "ttft,tpot,itl,e2el,audio_ttfp,audio_rtf,audio_duration,audio_underrun"
GOODPUT_METRICS = {
    "ttft": "ttft",
    "tpot": "tpot",
    "e2el": "e2el",
    "audio_ttft": "audio_ttfp",
    "audio_ttfp": "audio_ttfp",
}


def parse_metrics(text: str) -> tuple[MetricName, ...]:
    """The metrics of a comma list, in the order of reports."""
    wanted = {name.strip() for name in text.split(",") if name.strip()}
    if unknown := sorted(wanted - set(METRICS) - set(STAGE_METRICS)):
        raise ConfigError(f"--percentile-metrics: unknown {', '.join(unknown)}; known: {', '.join(METRICS)}")
    return tuple(metric for name, metric in METRICS.items() if name in wanted)


def parse_percentiles(text: str) -> tuple[float, ...]:
    """The percentiles of a comma list, 0 to 100."""
    try:
        percents = tuple(float(word) for word in text.split(",") if word.strip())
    except ValueError:
        percents = (-1.0,)
    if not percents or not all(0 <= percent <= 100 for percent in percents):
        raise ConfigError(f"--metric-percentiles is {text!r}; give numbers from 0 to 100, such as 50,90,99")
    return percents


def parse_goodput(pairs: list[str]) -> Mapping[str, float]:
    """`ttft:200` and the like to metric names and the most seconds that count as good."""
    limits_s: dict[str, float] = {}
    for pair in pairs:
        name, _, text = pair.partition(":")
        try:
            limit_ms = float(text)
        except ValueError:
            limit_ms = -1.0
        if name not in GOODPUT_METRICS or not limit_ms >= 0:
            raise ConfigError(f"--goodput {pair!r}: give NAME:MILLISECONDS with one of {', '.join(GOODPUT_METRICS)}")
        limits_s[GOODPUT_METRICS[name]] = limit_ms / 1000
    return limits_s
