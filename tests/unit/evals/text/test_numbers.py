import pytest

from antiphon.evals.text.numbers import cardinal, ordinal, spell_numbers


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "zero"),
        (13, "thirteen"),
        (40, "forty"),
        (99, "ninety nine"),
        (100, "one hundred"),
        (1_305, "one thousand three hundred five"),
        (2_000_017, "two million seventeen"),
    ],
)
def test_cardinals(number: int, words: str) -> None:
    assert cardinal(number) == words


@pytest.mark.parametrize(
    ("number", "words"),
    [(1, "first"), (12, "twelfth"), (20, "twentieth"), (21, "twenty first"), (100, "one hundredth")],
)
def test_ordinals(number: int, words: str) -> None:
    assert ordinal(number) == words


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("at 7.", "at seven."),
        ("1,250 people", "one thousand two hundred fifty people"),
        ("3.14 is it", "three point one four is it"),
        ("the 2nd of 50%", "the second of fifty percent"),
        ("B2B", "B2B"),
        ("1234567890123", "one two three four five six seven eight nine zero one two three"),
    ],
)
def test_numbers_in_a_text(text: str, spelled: str) -> None:
    assert spell_numbers(text) == spelled
