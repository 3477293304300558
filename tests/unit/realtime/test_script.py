import pytest

from antiphon.core.errors import ConfigError
from antiphon.realtime.script import Answer, Piece, load_script


def test_a_script_is_read_from_yaml(tmp_path):
    path = tmp_path / "script.yaml"
    path.write_text("gap_ms: 5\nanswers:\n- pieces: [{text: Hi, audio_ms: 200}]\n  pieces_per_unit: 1\n")
    script = load_script(path)
    assert script.answers == (Answer(pieces=(Piece("Hi", 200),), pieces_per_unit=1),)
    assert script.gap_ms == 5


@pytest.mark.parametrize("text", ["answers: 3", "answers: []\nnonsense: 1", "{", "answers: []"])
def test_a_script_that_cannot_be_is_refused_with_its_file(tmp_path, text):
    path = tmp_path / "script.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"script\.yaml"):
        load_script(path)


def test_a_missing_script_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        load_script(tmp_path / "none.yaml")
