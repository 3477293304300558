"""Levels and backends from the command line."""

import pytest

from antiphon.bench.settings import Backend, Level, parse_backend, parse_levels
from antiphon.core.errors import ConfigError


def test_no_limit_is_one_level() -> None:
    assert parse_levels("", "10") == (Level(max_concurrency=None, num_prompts=10),)


def test_one_number_of_prompts_serves_every_level() -> None:
    assert [(level.max_concurrency, level.num_prompts) for level in parse_levels("1,4", "8")] == [(1, 8), (4, 8)]
    assert [(level.max_concurrency, level.num_prompts) for level in parse_levels("1,4", "8,32")] == [(1, 8), (4, 32)]


@pytest.mark.parametrize(("limits", "prompts"), [("x", "1"), ("0", "1"), ("1", ""), ("1", "-1"), ("1,2", "1,2,3")])
def test_other_lists_are_refused(limits: str, prompts: str) -> None:
    with pytest.raises(ConfigError, match="--"):
        parse_levels(limits, prompts)


def test_aliases_name_the_same_backend() -> None:
    assert parse_backend("daily-omni") is Backend.CHAT_OMNI
    assert parse_backend("openai-audio-speech").endpoint == "/v1/audio/speech"
    with pytest.raises(ConfigError, match="known: openai-chat-omni"):
        parse_backend("vllm")
