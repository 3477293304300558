import pytest

from antiphon.core.errors import ConfigError
from antiphon.evals.items import Output, Truth
from antiphon.evals.scoring.letters import LetterPart
from antiphon.evals.text.letters import video_mme_letter

PART = LetterPart("video-mme", video_mme_letter)


@pytest.mark.parametrize(("text", "accuracy", "letter"), [("A.", 1.0, "A"), ("B", 0.0, "B"), ("dunno", 0.0, "")])
def test_an_answer_is_right_or_wrong_and_one_without_a_letter_is_wrong(text: str, accuracy: float, letter: str) -> None:
    marks = PART.score(Output(truth=Truth(item_id="a", gold="A"), text=text))
    assert marks.values == {"accuracy": accuracy}
    assert marks.details == {"gold": "A", "letter": letter, "answer": text}


def test_a_question_without_a_known_answer_is_not_scored() -> None:
    with pytest.raises(ConfigError, match="no gold"):
        PART.score(Output(truth=Truth(item_id="a"), text="A"))
