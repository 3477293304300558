import pytest

from antiphon.core.errors import ConfigError
from antiphon.evals.scorers.recorded import recorded_scorer


def test_the_maker_of_transcripts_is_named() -> None:
    assert recorded_scorer({"a": "big 3", "b": "big 3"}).text == "recorded big 3"
    assert recorded_scorer({"a": ""}).version == "unnamed"


def test_transcripts_of_two_makers_are_not_mixed() -> None:
    with pytest.raises(ConfigError, match="big, small"):
        recorded_scorer({"a": "small", "b": "big"})
