"""Text in pieces becomes sentences with times."""

import pytest

from antiphon.bench.duplex_eval.sentences import Sentence, TextPiece, cut_sentences, read_sentences, sentences_document
from antiphon.core.errors import ConfigError


def cut(*pieces: tuple[str, float], response: str = "r") -> list[tuple[str, float, float]]:
    found = cut_sentences(TextPiece(response, text, at_s) for text, at_s in pieces)
    return [(sentence.text, sentence.start_s, sentence.end_s) for sentence in found]


def test_a_sentence_begins_with_its_first_piece_and_ends_with_its_last() -> None:
    assert cut(("A man ", 1.0), ("walks. Then", 2.0), (" he stops", 3.0), (".", 4.0)) == [
        ("A man walks.", 1.0, 2.0),
        ("Then he stops.", 2.0, 4.0),
    ]


def test_numbers_and_closing_quotes_do_not_cut() -> None:
    assert [text for text, *_ in cut(('He says "stop!" at 3.5 km. End', 1.0))] == [
        'He says "stop!"',
        "at 3.5 km.",
        "End",
    ]


def test_chinese_punctuation_ends_sentences_without_a_blank() -> None:
    assert [text for text, *_ in cut(("他走了。停下！", 1.0))] == ["他走了。", "停下！"]


def test_a_response_ends_its_last_sentence() -> None:
    pieces = [TextPiece("a", "One", 1.0), TextPiece("b", "Two", 5.0)]
    assert [sentence.text for sentence in cut_sentences(pieces)] == ["One", "Two"]


def test_blanks_alone_are_no_sentence() -> None:
    assert cut((" ", 1.0), ("\n", 2.0)) == []


def test_what_is_written_is_read_back() -> None:
    sentences = [Sentence("A.", 1.0, 2.0), Sentence("B.", 3.0, 3.5)]
    assert read_sentences(sentences_document(sentences), "x") == sentences


def test_the_other_accepted_spellings_are_read_in_order_of_time() -> None:
    document = {"chunks": [{"text": "late", "current_time": 6}, {"sentence": "early", "start": 1.0, "end": 2}]}
    assert read_sentences(document, "x") == [Sentence("early", 1.0, 2.0), Sentence("late", 6.0, 6.0)]


@pytest.mark.parametrize("document", ["x", {"a": 1}, [1], [{"sentence": "a"}], [{"sentence": 1, "start": 0}]])
def test_other_documents_are_refused(document) -> None:
    with pytest.raises(ConfigError, match=r"^file"):
        read_sentences(document, "file")
