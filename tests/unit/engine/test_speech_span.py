import pytest

from antiphon.engine.speech_span import speech_span

BOS, EOS, END = 90, 91, 92


def span(ids, num_hidden=None):
    num_hidden = len(ids) if num_hidden is None else num_hidden
    return speech_span(ids, tts_bos_id=BOS, tts_eos_id=EOS, num_hidden=num_hidden, stop_ids={END})


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([1, BOS, 2, 3, EOS, END], (2, 4)),
        ([1, BOS, 2, EOS, BOS, 3, EOS, 4], (5, 6)),  # the last of each
        ([1, BOS, EOS, END], (2, 2)),
        ([1, BOS], (2, 2)),
        ([1, 2, EOS], (0, 0)),  # nothing to speak without tts_bos
        ([1, BOS, 2, EOS, 3, BOS, 4, 5], (6, 8)),  # an end before the last start ends nothing
    ],
)
def test_the_span_lies_between_the_last_start_and_the_last_end(ids, expected):
    assert span(ids) == expected


def test_an_answer_without_tts_eos_loses_its_terminator():
    assert span([1, BOS, 2, 3, END]) == (2, 4)


def test_ids_without_a_hidden_row_are_not_spoken():
    assert span([1, BOS, 2, 3, 4], num_hidden=4) == (2, 4)
    assert span([1, BOS, 2, 3, END], num_hidden=4) == (2, 4)


def test_a_span_is_never_negative():
    assert span([1, 2, BOS], num_hidden=2) == (3, 3)
