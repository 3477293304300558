import pytest

from antiphon.core.errors import ConfigError
from antiphon.evals.text.words import WordRules, normalise, word_errors

ENGLISH, CHINESE = WordRules("en"), WordRules("zh")


def test_marks_case_and_blanks_do_not_count_but_apostrophes_do() -> None:
    assert normalise("“Don’t”,  she SAID – twice!\n", ENGLISH) == ["don't", "she", "said", "twice"]
    assert normalise("It's 'quoted' ' ' text", ENGLISH) == ["it's", "'quoted'", "text"]


def test_chinese_is_compared_by_characters() -> None:
    assert normalise("你好，世 界！", CHINESE) == ["你", "好", "世", "界"]


def test_planted_errors_are_counted_exactly() -> None:
    found = word_errors("one two three four five six", "one too three four five extra six", ENGLISH)
    assert (found.num_substituted, found.num_deleted, found.num_inserted) == (1, 0, 1)
    assert found.rate == pytest.approx(2 / 6)
    assert word_errors("a b c d", "a c d", ENGLISH).num_deleted == 1


def test_nothing_heard_is_all_words_lost_and_too_much_is_over_one() -> None:
    assert word_errors("one two", " … ", ENGLISH).rate == 1.0
    assert word_errors("one", "two three four", ENGLISH).rate == 3.0


def test_a_chinese_error_is_a_character() -> None:
    assert word_errors("今天天气很好。", "今天天气真好", CHINESE).rate == pytest.approx(1 / 6)


def test_numbers_stay_as_written_unless_they_are_to_be_spelled() -> None:
    text, heard = "Two of the 21 boys came third.", "2 of the twenty one boys came 3rd"
    assert word_errors(text, heard, ENGLISH).num_errors > 0
    assert word_errors(text, heard, WordRules("en", spells_numbers=True)).num_errors == 0


def test_a_reference_without_words_and_unknown_rules_are_refused() -> None:
    with pytest.raises(ConfigError, match="has no words"):
        word_errors("…", "hello", ENGLISH)
    with pytest.raises(ConfigError, match="en and zh only"):
        WordRules("de")
    with pytest.raises(ConfigError, match="English only"):
        WordRules("zh", spells_numbers=True)
