"""Numbers out of whatever a judge writes."""

import pytest

from antiphon.bench.duplex_eval.judge_replies import read_number


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ('{"score": 2}', (2.0, True)),
        ('Sure!\n```json\n{"score": 1.25, "why": "x"}\n```', (1.25, True)),
        ('{"score": "3"}', (3.0, True)),
        ('{"score": true}', (1.0, True)),
        ('{"score": 2, broken', (2.0, True)),
        ("score: 1.5 because", (1.5, True)),
        ('{"score": 99}', (3.0, True)),
        ('{"score": -1}', (0.0, True)),
        ('{"score": null}', (0.0, False)),
        ("I cannot tell", (0.0, False)),
        ("", (0.0, False)),
    ],
)
def test_a_number_is_read_rescued_or_zero(reply, expected) -> None:
    assert read_number(reply, "score", 0, 3) == expected
