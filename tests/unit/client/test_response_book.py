import asyncio
from base64 import b64encode

import pytest

from antiphon.client import DuplexSessionClosedError
from antiphon.client.config import OUTPUT_FORMAT
from antiphon.client.events import wrap_event
from antiphon.client.response import ResponseHandle
from antiphon.client.response_book import ResponseBook


class Book:
    """Feeds events in short; gives the announced handles."""

    def __init__(self):
        self._book = ResponseBook(OUTPUT_FORMAT)

    def take(self, kind, response_id=None, **fields):
        raw = {"type": kind, **fields}
        return self._book.take(wrap_event(raw if response_id is None else {**raw, "response_id": response_id}))

    def audio(self, response_id, num_bytes):
        return self.take("response.output_audio.delta", response_id, delta=b64encode(bytes(num_bytes)).decode())

    def end(self):
        self._book.end(DuplexSessionClosedError("gone"))


def test_a_response_is_announced_once_at_its_first_output():
    book = Book()
    assert book.take("response.created", "r") is None
    handle = book.take("response.speak", "r")
    assert (handle.response_id, handle.decision, handle.finished) == ("r", "speak", False)
    assert book.audio("r", 4800) is None
    assert book.take("response.output_audio_transcript.delta", "r", delta="hi") is None
    assert book.take("response.done", "r") is None
    assert (handle.text, handle.finished, handle.created_event.type) == ("hi", True, "response.created")


def test_a_response_without_output_is_announced_at_its_end():
    book = Book()
    book.take("response.created", "r")
    handle = book.take("response.done", "r")
    assert (handle.decision, handle.finished) == ("speak", True)


def test_a_listen_with_an_id_ends_the_response_and_what_follows_is_ignored():
    book = Book()
    book.take("response.created", "r")
    handle = book.take("response.listen", "r")
    assert (handle.decision, handle.done_event.type) == ("listen", "response.listen")
    assert book.take("response.done", "r") is None
    assert book.audio("r", 480) is None
    assert book.take("response.listen", "r") is None


def test_a_moment_of_listening_is_a_finished_handle_without_id():
    handle = Book().take("response.listen", response={"status": "listening"})
    assert (handle.response_id, handle.decision, handle.finished) == (None, "listen", True)


def test_text_of_a_written_answer_goes_before_a_transcript():
    book = Book()
    handle = book.take("response.output_text.delta", "r", delta="written")
    assert (handle.text, handle.transcript, handle.decision) == ("written", "", "speak")


def test_played_time_is_that_of_the_chunks_taken():
    async def run():
        book = Book()
        handle = book.audio("r", 48_000)
        book.audio("r", 24_000)
        book.take("response.done", "r")
        played = [(len(chunk), handle.played_ms) async for chunk in handle.audio()]
        assert played == [(48_000, 1000), (24_000, 1500)]
        await handle.wait(1)

    asyncio.run(run())


def test_the_end_of_the_session_reaches_whoever_waits():
    async def run():
        book = Book()
        handle = book.audio("r", 480)
        book.end()
        with pytest.raises(DuplexSessionClosedError):
            await handle.wait(1)
        with pytest.raises(DuplexSessionClosedError):
            async for _ in handle.audio():
                pass

    asyncio.run(run())


def test_sound_that_nobody_takes_is_bounded_and_counted():
    handle = ResponseHandle(response_id="r", output_format=OUTPUT_FORMAT, max_buffered_events=2)
    for _ in range(5):
        handle.take_audio(b"\0\0")
    assert handle.num_dropped_chunks == 3


def test_waiting_has_an_end():
    async def run():
        handle = ResponseHandle(response_id="r", output_format=OUTPUT_FORMAT)
        with pytest.raises(asyncio.TimeoutError):
            await handle.wait(0.01)

    asyncio.run(run())
