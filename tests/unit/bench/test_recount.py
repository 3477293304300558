"""Counting tokens for servers that tell no usage."""

from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from antiphon.bench.recount import load_counter, with_counts
from antiphon.bench.timeline import Answer, TextArrival, Usage
from antiphon.core.errors import ConfigError

MESSAGES = ({"role": "user", "content": [{"type": "text", "text": "a b c"}, {"type": "image_url"}]},)
ANSWER = Answer(e2e_s=1.0, texts=(TextArrival(at_s=0.1, num_tokens=1, text="a b"),))


@pytest.fixture
def tokenizer_file(tmp_path: Path) -> Path:
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "b": 1, "?": 2}, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def test_text_and_prompt_are_counted(tokenizer_file: Path) -> None:
    found = with_counts(ANSWER, MESSAGES, load_counter(tokenizer_file))
    assert found.usage == Usage(prompt_tokens=3, completion_tokens=2)


def test_a_count_of_the_server_stays(tokenizer_file: Path) -> None:
    usage = Usage(prompt_tokens=9, completion_tokens=9)
    answer = Answer(e2e_s=1.0, usage=usage)
    assert with_counts(answer, MESSAGES, load_counter(tokenizer_file / "tokenizer.json")).usage == usage


def test_a_missing_or_broken_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no tokenizer\.json there"):
        load_counter(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_counter(tmp_path)
