"""Scored items, reports and scorers that are made by hand, for tests of what comes after scoring."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from antiphon.evals.report.document import Report
from antiphon.evals.scorers.protocols import ScorerName
from antiphon.evals.scoring.scored import Marks, Scored
from antiphon.evals.speech.sound import Sound

SCORER = ScorerName("fake", "1")


class FixedRecogniser:
    """Hears one text in everything, and counts how often it listened."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.num_heard = 0

    @property
    def scorer(self) -> ScorerName:
        return SCORER

    def transcribe(self, sound: Sound, language: str) -> str:
        self.num_heard += 1
        return self.text


class PitchEncoder:
    """Two voices are alike if their strongest frequencies are: enough for tones."""

    scorer = ScorerName("pitch", "1")

    def encode(self, sound: Sound) -> NDArray[np.float32]:
        strongest = int(np.argmax(np.abs(np.fft.rfft(sound.samples))))
        hertz = strongest * sound.rate_hz / len(sound.samples)
        return np.array([np.cos(hertz / 300), np.sin(hertz / 300)], np.float32)


def scored(
    item_id: str,
    values: Mapping[str, float],
    *,
    details: Mapping[str, object] | None = None,
    groups: Mapping[str, str] | None = None,
    digest: str = "same",
    error: str = "",
    problems: Mapping[str, str] | None = None,
) -> Scored:
    return Scored(
        item_id=item_id,
        truth_digest=digest,
        groups=groups or {},
        marks=Marks(values, details or {}),
        error=error,
        problems=problems or {},
    )


def report_of(items: list[Scored], *, kind: str = "wer", dataset: str = "made", scorer: ScorerName = SCORER) -> Report:
    return Report(kind=kind, dataset=dataset, scorers={"words": scorer}, items=items, run={"model": "m"})
