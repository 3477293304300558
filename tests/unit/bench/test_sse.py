"""Server-sent events out of bytes."""

import pytest

from antiphon.bench.sse import SseDecoder

STREAM = b'data: {"a": "\xc3\xbc"}\n\n: ping\n\nevent: x\ndata:second\r\n\r\ndata: one\ndata: two\n\ndata: [DONE]\n\n'
PAYLOADS = [b'{"a": "\xc3\xbc"}', b"second", b"one\ntwo", b"[DONE]"]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_events_are_the_same_however_the_bytes_are_split(size: int) -> None:
    decoder = SseDecoder()
    found = [payload for place in range(0, len(STREAM), size) for payload in decoder.feed(STREAM[place : place + size])]
    assert found == PAYLOADS


def test_an_event_that_is_not_complete_is_not_given() -> None:
    decoder = SseDecoder()
    assert decoder.feed(b"data: half") == []
    assert decoder.feed(b"\n") == []
    assert decoder.feed(b"\n") == [b"half"]
