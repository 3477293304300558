"""Which addresses of a server are understood."""

import pytest

from antiphon.core.errors import ConfigError
from antiphon.serving.realtime.proxy import parse_upstream


@pytest.mark.parametrize(
    ("typed", "base", "origin"),
    [
        ("ws://127.0.0.1:8099", "ws://127.0.0.1:8099", "http://127.0.0.1:8099"),
        ("http://gpu:8099/", "ws://gpu:8099", "http://gpu:8099"),
        ("https://gpu.example/omni", "wss://gpu.example/omni", "https://gpu.example"),
        ("wss://gpu.example/omni/v1/realtime", "wss://gpu.example/omni", "https://gpu.example"),
        ("ws://[::1]:9/v1", "ws://[::1]:9", "http://[::1]:9"),
    ],
)
def test_what_people_type_becomes_a_base_and_an_origin(typed: str, base: str, origin: str) -> None:
    upstream = parse_upstream(typed)
    assert upstream.base == base
    assert upstream.origin == origin
    assert upstream.http_base == "http" + base.removeprefix("ws")


@pytest.mark.parametrize(
    "typed", ["", "gpu:8099", "ftp://gpu", "ws://", "ws://gpu:x", "ws://gpu:99999", "ws://gpu?a=b", "ws://me:pw@gpu"]
)
def test_anything_else_is_refused_with_what_was_typed(typed: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_upstream(typed)
    assert repr(typed) in str(caught.value)
