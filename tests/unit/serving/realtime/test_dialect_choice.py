import pytest

from antiphon.serving.realtime.dialect_choice import choose_dialect
from antiphon.wire.realtime.query import parse_query


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ({}, "vllm"),
        ({"model": "m"}, "openai"),
        ({"model": "m", "duplex": "1"}, "vllm"),
        ({"model": "m", "autostart": "0"}, "vllm"),
        ({"model": "m", "resume": "1"}, "vllm"),
        ({"model": "m", "dialect": "vllm"}, "vllm"),
        ({"dialect": "openai"}, "openai"),
        ({"dialect": "openai", "duplex": "1"}, "openai"),
        ({"dialect": "vllm-legacy"}, "vllm-legacy"),
    ],
)
def test_the_query_chooses(query: dict[str, str], name: str):
    assert choose_dialect(parse_query(query), None, is_alias=False).name == name


def test_the_alias_always_speaks_vllms_dialect():
    assert choose_dialect(parse_query({"model": "m"}), None, is_alias=True).name == "vllm"


def test_openais_subprotocol_changes_nothing():
    assert choose_dialect(parse_query({"model": "m"}), "realtime", is_alias=False).name == "openai"


@pytest.mark.parametrize("query", [{}, {"model": "m"}, {"model": "m", "mode": "video"}, {"dialect": "openai"}])
@pytest.mark.parametrize("is_alias", [False, True])
def test_openbmbs_subprotocol_decides_whatever_the_query_says(query: dict[str, str], is_alias: bool):
    assert choose_dialect(parse_query(query), "map.realtime", is_alias=is_alias).name == "map.realtime"
