import pytest

from antiphon.wire.chat import ChatRequest, refusals
from antiphon.wire.parse import WireError, field_path, parse, shorten
from antiphon.wire.reply import ChunkChoice, CompletionChunk, Delta, to_json


@pytest.mark.parametrize(
    ("loc", "path"),
    [
        ((), None),
        (("model",), "model"),
        (("messages", 0, "role"), "messages[0].role"),
        (
            ("messages", 0, "content", "parts", 1, "image_url", "image_url", "url"),
            "messages[0].content[1].image_url.url",
        ),
        (("messages", 2, "content", "parts", 1), "messages[2].content[1]"),
        (("messages", 2, "content", "string"), "messages[2].content"),
        (("stop", 3), "stop[3]"),
    ],
)
def test_a_field_is_named_as_the_client_wrote_it(loc: tuple[int | str, ...], path: str | None) -> None:
    assert field_path(loc) == path


@pytest.mark.parametrize(
    ("body", "message", "param"),
    [
        (b"{", "the body is not valid JSON: EOF", None),
        (b"", "the body is not valid JSON", None),
        (b"\xff", "the body is not valid JSON", None),
        (b"[]", "the body: should be an object", None),
        (b"{}", "messages: field required", "messages"),
        (b'{"messages": [{"role": "user", "content": "\\ud800"}]}', "the body is not valid JSON", None),
    ],
)
def test_what_cannot_be_read_is_said_in_one_line(body: bytes, message: str, param: str | None) -> None:
    with pytest.raises(WireError) as caught:
        parse(ChatRequest, body)
    assert str(caught.value).startswith(message)
    assert caught.value.param == param
    assert "\n" not in str(caught.value)


def test_a_long_value_is_shortened() -> None:
    assert shorten("x" * 100) == "'" + "x" * 59 + "…"
    assert shorten("x") == "'x'"


def test_one_stop_string_is_a_list_of_one() -> None:
    assert parse(ChatRequest, b'{"messages":[{"role":"user"}],"stop":"x"}').stop == ["x"]


def test_numbers_beyond_json_reach_the_range_check() -> None:
    request = parse(ChatRequest, b'{"messages":[{"role":"user"}],"temperature":NaN,"seed":1180591620717411303424}')
    assert request.temperature != request.temperature
    assert request.seed == 2**70


def test_everything_that_is_refused_is_listed() -> None:
    body = b'{"messages":[{"role":"user"}],"n":3,"echo":true,"logit_bias":{"1":2},"response_format":{"type":"json"}}'
    assert {name for name, _ in refusals(parse(ChatRequest, body))} == {"n", "echo", "logit_bias", "response_format"}
    assert refusals(parse(ChatRequest, b'{"messages":[{"role":"user"}],"n":1,"echo":false,"tool_choice":"auto"}')) == []


def test_keys_that_were_not_set_are_left_out() -> None:
    chunk = CompletionChunk(
        id="a", created=1, model="m", choices=[ChunkChoice(delta=Delta(content="x"), finish_reason=None)]
    )
    assert to_json(chunk) == (
        b'{"id":"a","object":"chat.completion.chunk","created":1,"model":"m",'
        b'"choices":[{"delta":{"content":"x"},"finish_reason":null,"index":0}]}'
    )
