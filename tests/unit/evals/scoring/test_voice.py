from pathlib import Path

import numpy as np
import pytest
import soundfile
from eval_scores import PitchEncoder

from antiphon.core.errors import AntiphonError
from antiphon.evals.items import Output, Truth
from antiphon.evals.scoring.cache import ScoreCache
from antiphon.evals.scoring.voice import VoicePart


def tone(path: Path, hertz: float, duration_s: float = 1.0) -> Path:
    soundfile.write(path, 0.3 * np.sin(np.arange(round(8_000 * duration_s)) * 2 * np.pi * hertz / 8_000), 8_000)
    return path


def output(sound: Path | None, reference: Path | None) -> Output:
    return Output(truth=Truth(item_id="a", reference=reference), sound=sound)


def test_one_voice_is_joined_and_two_are_told_apart(tmp_path: Path) -> None:
    part = VoicePart(PitchEncoder(), ScoreCache(tmp_path))
    low, again, high = tone(tmp_path / "l.wav", 200), tone(tmp_path / "m.wav", 200, 2.0), tone(tmp_path / "h.wav", 700)
    assert part.score(output(low, again)).values["sim"] == pytest.approx(1.0)
    assert part.score(output(low, high)).values["sim"] < 0.0
    assert part.scorer.name == "pitch"


def test_without_a_voice_there_is_no_similarity(tmp_path: Path) -> None:
    part, voice = VoicePart(PitchEncoder(), ScoreCache(tmp_path)), tone(tmp_path / "l.wav", 200)
    short = tone(tmp_path / "s.wav", 200, 0.2)
    for sound, reference, words in (
        (voice, None, "no reference"),
        (None, voice, "no sound"),
        (short, voice, r"s\.wav: is 0\.20 s long"),
        (voice, tmp_path / "none.wav", r"none\.wav"),
    ):
        with pytest.raises(AntiphonError, match=words):
            part.score(output(sound, reference))
