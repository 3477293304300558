"""The values that items are given, how they are shown, and which way is better."""

from dataclasses import dataclass
from enum import Enum


class Better(Enum):
    """Which way a value improves. Of `NEITHER` a difference is told, but not judged."""

    LOWER = "lower"
    HIGHER = "higher"
    NEITHER = "neither"


@dataclass(frozen=True)
class Metric:
    """One kind of value. `scorer` names the part of a report's scorers that it depends on."""

    name: str
    title: str
    unit: str
    better: Better
    scorer: str = ""
    num_decimals: int = 2

    def text(self, value: float) -> str:
        """*value* with its unit; shares are shown as percentages."""
        if self.unit == "%":
            return f"{100 * value:.{self.num_decimals}f} %"
        return f"{value:.{self.num_decimals}f}" + (f" {self.unit}" if self.unit else "")


WORDS, VOICE, LETTERS, FLOW = "words", "voice", "letters", "flow"

_ALL = (
    Metric("wer", "word errors", "%", Better.LOWER, WORDS),
    Metric("sim", "voice similarity", "", Better.HIGHER, VOICE, 3),
    Metric("accuracy", "accuracy", "%", Better.HIGHER, LETTERS, 1),
    Metric("underrun_s", "underrun", "s", Better.LOWER, FLOW, 3),
    Metric("num_stalls", "stalls", "", Better.LOWER, FLOW),
    Metric("is_continuous", "played without a stall over 0.1 s", "%", Better.HIGHER, FLOW, 1),
    Metric("num_border_clicks", "clicks at borders of pieces", "", Better.LOWER, FLOW),
    Metric("num_clicks", "clicks anywhere", "", Better.LOWER, FLOW),
    Metric("num_dropouts", "dropouts", "", Better.LOWER, FLOW),
    Metric("clipped_share", "clipped samples", "%", Better.LOWER, FLOW),
    Metric("silence_share", "silence", "%", Better.NEITHER, FLOW, 1),
    Metric("longest_pause_s", "longest pause", "s", Better.NEITHER, FLOW),
    Metric("audio_s", "speech", "s", Better.NEITHER),
    Metric("ttfp_ms", "time to first sound", "ms", Better.LOWER, num_decimals=0),
    Metric("audio_rtf", "client real-time factor", "", Better.LOWER, num_decimals=3),
)
METRICS = {metric.name: metric for metric in _ALL}
