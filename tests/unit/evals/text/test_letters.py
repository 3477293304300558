import pytest

from antiphon.core.errors import ConfigError
from antiphon.evals.text.letters import check_extraction, daily_omni_letter, video_mme_letter


@pytest.mark.parametrize(
    ("answer", "letter"),
    [
        ("B", "B"),
        ("C. The dog barks", "C"),
        ("D) later", "D"),
        ("A: yes", "A"),
        ("The answer is B.", "B"),
        ("assistant\nC", "C"),
        ("user A assistant\n\nD.", "D"),
        ("选B。", "B"),
        ("答案是C", "C"),
        ("Because", ""),
        ("Every Cat And Dog", ""),
        ("", ""),
        ("E", ""),
    ],
)
def test_the_letter_of_a_daily_omni_answer(answer: str, letter: str) -> None:
    assert daily_omni_letter(answer) == letter


def test_small_letters_count_only_when_relaxed() -> None:
    assert daily_omni_letter("c.") == ""
    assert daily_omni_letter("c.", extraction="relaxed") == "C"


@pytest.mark.parametrize(
    ("answer", "letter"),
    [
        ("The best answer is: B", "B"),
        ("Answer: C. because", "C"),
        ("the answer is D", "D"),
        ("(A)", "A"),
        ("none of these is right and i do not know which one it may be", ""),
        ("", ""),
    ],
)
def test_the_letter_of_a_video_mme_answer(answer: str, letter: str) -> None:
    assert video_mme_letter(answer) == letter


def test_an_unknown_way_to_extract_is_refused() -> None:
    with pytest.raises(ConfigError, match="strict"):
        check_extraction("loose")
