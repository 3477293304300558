"""The events of one request on their way to its reader: bounded, in order, with one end."""

import threading
from collections import deque
from collections.abc import Callable

import numpy as np

from antiphon.pipeline.events import AudioChunk, End, RequestEvent, TextDelta

MAX_EVENTS = 256
MAX_BYTES = 64 * 2**20  # eleven minutes of speech


class OutputQueue:
    """Never blocks its writer. When it is full, neighbours are joined: text to text, samples to samples.

    So a slow reader gets larger pieces, not fewer. Only the bytes can run out: then `push` refuses, and the writer has
    to end the request. Nothing follows the end.

    Args:
        max_events: beyond it events are joined.
        max_bytes: samples and text that may wait.
    """

    def __init__(self, *, max_events: int = MAX_EVENTS, max_bytes: int = MAX_BYTES) -> None:
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._events: deque[RequestEvent] = deque()
        self._num_bytes = 0
        self._is_ended = False
        self._changed = threading.Condition()
        self._listener: Callable[[], None] | None = None

    def __len__(self) -> int:
        return len(self._events)

    def push(self, event: TextDelta | AudioChunk) -> bool:
        """Append *event*; False if it does not fit. After the end it is dropped."""
        with self._changed:
            if self._is_ended:
                return True
            if self._num_bytes + _size(event) > self._max_bytes:
                return False
            self._num_bytes += _size(event)
            if len(self._events) < self._max_events or not self._join(event):
                self._events.append(event)
        self._tell()
        return True

    def end(self, event: End) -> bool:
        """Append the end; False if there was one already."""
        with self._changed:
            if self._is_ended:
                return False
            self._is_ended = True
            self._events.append(event)
        self._tell()
        return True

    def take(self, timeout_s: float | None = None) -> RequestEvent | None:
        """The next event, waited for; None if none came in time."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._events), timeout_s)
            if not self._events:
                return None
            event = self._events.popleft()
            if isinstance(event, (TextDelta, AudioChunk)):
                self._num_bytes -= _size(event)
            return event

    def listen(self, listener: Callable[[], None]) -> None:
        """Call *listener* (on the writer's thread) whenever something has come, and now if something waits."""
        with self._changed:
            self._listener = listener
            has_events = bool(self._events)
        if has_events:
            listener()

    def _tell(self) -> None:
        with self._changed:
            self._changed.notify_all()
            listener = self._listener
        if listener is not None:
            listener()

    def _join(self, event: TextDelta | AudioChunk) -> bool:
        for place in range(len(self._events) - 1, -1, -1):
            other = self._events[place]
            if isinstance(event, TextDelta) and isinstance(other, TextDelta):
                self._events[place] = TextDelta(other.text + event.text, event.num_tokens)
                return True
            if isinstance(event, AudioChunk) and isinstance(other, AudioChunk):
                samples = np.concatenate((other.samples, event.samples))
                self._events[place] = AudioChunk(samples, event.sample_rate_hz)
                return True
        return False


def _size(event: TextDelta | AudioChunk) -> int:
    return event.samples.nbytes if isinstance(event, AudioChunk) else 4 * len(event.text)
