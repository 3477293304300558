"""Stages of one process: the message itself is handed over, its tensors with their fence; nothing is copied."""

import threading
from collections import deque
from collections.abc import Callable, Sequence

from antiphon.pipeline.connectors.connector import ConnectorClosedError, ConnectorTimeoutError


class LocalConnector:
    """Both ends in one. Between two threads `put` waits for room; within one, give it no time to wait.

    Args:
        wake: called after each message, so that the consumer need not look.
        max_messages: the bound; messages are small, what they point to is bounded where it was made.
    """

    address = "local"

    def __init__(self, wake: Callable[[], None], *, max_messages: int = 1024) -> None:
        self._wake = wake
        self._max_messages = max_messages
        self._messages: deque[object] = deque()
        self._has_room = threading.Condition()
        self._is_closing = False

    @property
    def is_closed(self) -> bool:
        return self._is_closing and not self._messages

    def descriptors(self) -> Sequence[int]:
        return ()

    def put(self, message: object, *, timeout_s: float) -> None:
        with self._has_room:
            room = self._has_room.wait_for(
                lambda: self._is_closing or len(self._messages) < self._max_messages, timeout_s
            )
            if self._is_closing:
                raise ConnectorClosedError("the connector was closed")
            if not room:
                raise ConnectorTimeoutError(
                    f"the consumer took none of {self._max_messages} messages for {timeout_s:g} s"
                )
            self._messages.append(message)
        self._wake()

    def get(self) -> list[object]:
        with self._has_room:
            taken = list(self._messages)
            self._messages.clear()
            self._has_room.notify_all()
        return taken

    def close(self) -> None:
        with self._has_room:
            self._is_closing = True
            self._has_room.notify_all()
