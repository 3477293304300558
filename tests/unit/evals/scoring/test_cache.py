from pathlib import Path

import pytest

from antiphon.core.errors import ConfigError, MediaError
from antiphon.evals.scorers.protocols import ScorerName
from antiphon.evals.scoring.cache import ScoreCache

ONE, TWO = ScorerName("one", "1"), ScorerName("one", "2")


def test_a_value_is_made_once_for_a_scorer_and_content(tmp_path: Path) -> None:
    path, made = tmp_path / "a", iter(range(100))
    path.write_bytes(b"x")

    def get(scorer: ScorerName, facts: str = "") -> float:
        return ScoreCache(tmp_path / "out").get(float, scorer, facts, [path], lambda: float(next(made)))

    assert [get(ONE), get(ONE), get(TWO), get(ONE, "zh"), get(ONE)] == [0.0, 0.0, 1.0, 2.0, 0.0]
    path.write_bytes(b"y")
    assert get(ONE) == 3.0


def test_a_line_that_was_cut_off_is_as_good_as_none(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x")
    ScoreCache(tmp_path).get(str, ONE, "", [path], lambda: "heard")
    line = (tmp_path / "scores.jsonl").read_text()
    (tmp_path / "scores.jsonl").write_text(line[:-20])
    assert ScoreCache(tmp_path).get(str, ONE, "", [path], lambda: "again") == "again"


def test_a_missing_recording_and_a_cache_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    with pytest.raises(MediaError, match="none: No such file"):
        ScoreCache(tmp_path).get(str, ONE, "", [tmp_path / "none"], lambda: "x")
    (tmp_path / "scores.jsonl").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(ConfigError, match="cannot be read"):
        ScoreCache(tmp_path)
