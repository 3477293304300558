"""Whether speech flows: underruns of a player by when it came, and defects of the samples."""

from itertools import accumulate

from antiphon.core.errors import MediaError
from antiphon.evals.items import Output
from antiphon.evals.metrics import FLOW
from antiphon.evals.scorers.protocols import ScorerName
from antiphon.evals.scoring.scored import Marks
from antiphon.evals.speech.defects import find_defects
from antiphon.evals.speech.playing import play
from antiphon.evals.speech.sound import Sound, read_sound

_VERSION = "1"  # rises when what counts as a defect changes
_MAX_LISTED = 100


class FlowPart:
    """Needs no package. Without recorded arrivals only the samples are looked at."""

    name = FLOW

    def __init__(self, threshold_s: float) -> None:
        self._threshold_s = threshold_s

    @property
    def scorer(self) -> ScorerName:
        return ScorerName("antiphon-flow", _VERSION, {"threshold_s": f"{self._threshold_s:g}"})

    def score(self, output: Output) -> Marks:
        if output.sound is None:
            raise MediaError("it has no sound")
        sound = read_sound(output.sound)
        counts = [num_samples for _, num_samples in output.arrivals if num_samples]
        if counts and sum(counts) != len(sound.samples):
            raise MediaError(
                f"its arrivals tell of {sum(counts)} samples, but {output.sound} holds {len(sound.samples)}"
            )
        found = find_defects(sound, list(accumulate(counts))[:-1])
        values = {
            "num_clicks": float(len(found.clicks_s)),
            "num_dropouts": float(len(found.dropouts_s)),
            "clipped_share": found.clipped_share,
            "silence_share": found.silence_share,
            "longest_pause_s": found.longest_pause_s,
            "audio_s": sound.duration_s,
        }
        details: dict[str, object] = {
            "clicks_s": _rounded(found.clicks_s),
            "dropouts_s": [_rounded(pair) for pair in found.dropouts_s[:_MAX_LISTED]],
        }
        if counts:
            values["num_border_clicks"] = float(len(found.border_clicks_s))
            details["border_clicks_s"] = _rounded(found.border_clicks_s)
            self._add_timing(output, sound, values, details)
        return Marks(values, details)

    def _add_timing(self, output: Output, sound: Sound, values: dict[str, float], details: dict[str, object]) -> None:
        times_s = [at_s for at_s, num_samples in output.arrivals if num_samples]
        playing = play(output.arrivals, sound.rate_hz)
        values["underrun_s"] = playing.underrun_s
        values["num_stalls"] = float(len(playing.stalls))
        values["is_continuous"] = float(playing.is_continuous(self._threshold_s))
        values["ttfp_ms"] = 1000 * times_s[0]
        values["audio_rtf"] = times_s[-1] / sound.duration_s
        details["stalls_s"] = [_rounded((stall.position_s, stall.duration_s)) for stall in playing.stalls[:_MAX_LISTED]]


def _rounded(values: tuple[float, ...]) -> list[float]:
    return [round(value, 4) for value in values[:_MAX_LISTED]]
