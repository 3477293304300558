import threading

import numpy as np
import pytest

from antiphon.pipeline.events import Aborted, AudioChunk, Failed, RequestEvent, TextDelta
from antiphon.pipeline.output_queue import OutputQueue


def audio(*samples: float) -> AudioChunk:
    return AudioChunk(np.array(samples, np.float32), 24_000)


def drain(queue: OutputQueue) -> list[RequestEvent]:
    events = []
    while (event := queue.take(0)) is not None:
        events.append(event)
    return events


def test_events_come_out_in_order_and_nothing_follows_the_end() -> None:
    queue = OutputQueue()
    assert queue.push(TextDelta("a"))
    assert queue.end(Aborted())
    assert queue.push(TextDelta("b"))
    assert not queue.end(Failed(ValueError()))  # type: ignore[arg-type]
    assert drain(queue) == [TextDelta("a"), Aborted()]


def test_a_slow_reader_gets_larger_pieces() -> None:
    queue = OutputQueue(max_events=2)
    for event in (TextDelta("a"), audio(1.0), TextDelta("b"), audio(2.0), TextDelta("c")):
        assert queue.push(event)
    text, sound = drain(queue)
    assert text == TextDelta("abc")
    assert isinstance(sound, AudioChunk)
    assert sound.samples.tolist() == [1.0, 2.0]


def test_a_kind_that_has_nothing_to_join_is_appended_beyond_the_limit() -> None:
    queue = OutputQueue(max_events=1)
    queue.push(TextDelta("a"))
    queue.push(audio(1.0))
    assert len(queue) == 2


def test_bytes_run_out_and_come_back_when_read() -> None:
    queue = OutputQueue(max_bytes=8)
    assert queue.push(audio(1.0, 2.0))
    assert not queue.push(audio(3.0))
    queue.take(0)
    assert queue.push(audio(3.0))


def test_an_empty_queue_gives_nothing_when_not_waited_for() -> None:
    assert OutputQueue().take(0) is None


def test_a_reader_is_woken() -> None:
    queue = OutputQueue()
    found: list[RequestEvent | None] = []
    reader = threading.Thread(target=lambda: found.append(queue.take()))
    reader.start()
    queue.end(Aborted())
    reader.join()
    assert found == [Aborted()]


@pytest.mark.parametrize("is_early", [True, False])
def test_a_listener_hears_of_what_came_before_and_after_it(is_early: bool) -> None:
    queue = OutputQueue()
    heard: list[int] = []
    if is_early:
        queue.push(TextDelta("a"))
    queue.listen(lambda: heard.append(len(queue)))
    if not is_early:
        queue.push(TextDelta("a"))
    assert heard == [1]
