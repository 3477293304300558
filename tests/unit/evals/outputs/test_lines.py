import json
from pathlib import Path

import pytest

from antiphon.core.errors import ConfigError
from antiphon.evals.items import Output, Truth
from antiphon.evals.outputs.lines import parse_line, render_line

FOLDER = Path("/data/run")


def test_a_line_says_all_that_an_output_holds() -> None:
    truth = Truth(item_id="a", target="Hi", language="zh", reference=FOLDER / "v.wav", gold="B", groups={"kind": "x"})
    output = Output(
        truth=truth,
        text="ho",
        sound=FOLDER / "wavs" / "a.wav",
        arrivals=((0.5, 100), (0.75, 20)),
        e2e_s=1.5,
        transcript="hi",
        recogniser="r 1",
    )
    assert parse_line(render_line(output, FOLDER), "here", FOLDER) == output


def test_what_is_empty_is_left_out_and_files_are_named_from_the_folder() -> None:
    output = Output(truth=Truth(item_id="a", reference=Path("/data/voices/v.wav")), error="HTTP 500")
    assert json.loads(render_line(output, FOLDER)) == {
        "id": "a",
        "reference": "../voices/v.wav",
        "error": "HTTP 500",
    }


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "not JSON"),
        ("[]", "must be an object"),
        ('{"wav": "a.wav"}', "needs an id"),
        ('{"id": "a", "wave": "a.wav"}', "unknown key 'wave'"),
        ('{"id": "a", "target": 3}', "target must be a text"),
        ('{"id": "a", "arrivals": [[1]]}', "arrivals must be a list"),
        ('{"id": "a", "arrivals": [[2, 5], [1, 5]]}', "order of their times"),
        ('{"id": "a", "e2e_s": "long"}', "e2e_s must be a number"),
        ('{"id": "a", "groups": {"kind": 3}}', "groups must be"),
    ],
)
def test_a_line_that_is_not_as_it_should_be_is_refused_with_its_place(line: str, words: str) -> None:
    with pytest.raises(ConfigError, match=rf"^file:3: .*{words}"):
        parse_line(line, "file:3", FOLDER)
