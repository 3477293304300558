from pathlib import Path

import numpy as np
import pytest
import soundfile
from eval_scores import FixedRecogniser

from antiphon.core.errors import AntiphonError, ConfigError
from antiphon.evals.items import Output, Truth
from antiphon.evals.scoring.cache import ScoreCache
from antiphon.evals.scoring.words import WordPart


def output(folder: Path, target: str = "one two three four", **fields: object) -> Output:
    soundfile.write(folder / "a.wav", np.ones(100) * 0.1, 8_000)
    truth = Truth(item_id="a", target=target)
    return Output(**{"truth": truth, "sound": folder / "a.wav", **fields})  # type: ignore[arg-type]


def test_the_rate_is_of_what_the_recogniser_hears(tmp_path: Path) -> None:
    item = output(tmp_path)
    part = WordPart(FixedRecogniser("one two too four"), ScoreCache(tmp_path), [item])
    marks = part.score(item)
    assert marks.values == {"wer": 0.25}
    assert (marks.details["heard"], marks.details["num_units"]) == ("one two too four", 4)
    assert part.scorer.text == "fake 1 (words seed-tts-en)"


def test_what_was_heard_once_is_not_listened_to_again(tmp_path: Path) -> None:
    item, recogniser = output(tmp_path), FixedRecogniser("one")
    for _ in range(2):
        WordPart(recogniser, ScoreCache(tmp_path), [item]).score(item)
    assert recogniser.num_heard == 1
    soundfile.write(tmp_path / "a.wav", np.ones(100) * 0.2, 8_000)
    WordPart(recogniser, ScoreCache(tmp_path), [item]).score(item)
    assert recogniser.num_heard == 2


def test_transcripts_made_elsewhere_count_with_the_name_of_their_maker(tmp_path: Path) -> None:
    item = output(tmp_path, transcript="one two three", recogniser="big 3", sound=None)
    part = WordPart(None, ScoreCache(tmp_path), [item])
    assert part.score(item).values == {"wer": 0.25}
    assert (part.scorer.name, part.scorer.version) == ("recorded", "big 3")


def test_what_cannot_be_scored_is_refused_with_its_reason(tmp_path: Path) -> None:
    silent = output(tmp_path, sound=None)
    part = WordPart(FixedRecogniser("x"), ScoreCache(tmp_path), [silent])
    with pytest.raises(AntiphonError, match="no sound"):
        part.score(silent)
    with pytest.raises(AntiphonError, match="no target"):
        part.score(output(tmp_path, target=""))
    with pytest.raises(ConfigError, match="no output has a target"):
        WordPart(FixedRecogniser("x"), ScoreCache(tmp_path), [output(tmp_path, target="")])
    with pytest.raises(ConfigError, match="no output has a transcript"):
        WordPart(None, ScoreCache(tmp_path), [silent])


def test_transcripts_of_different_makers_are_refused(tmp_path: Path) -> None:
    mixed = [output(tmp_path, transcript="x", recogniser=name) for name in ("one", "two")]
    mixed[1] = Output(truth=Truth(item_id="b", target="x"), transcript="x", recogniser="two")
    with pytest.raises(ConfigError, match="different recognisers"):
        WordPart(None, ScoreCache(tmp_path), mixed)
