"""Carries messages from a device loop to the front on a thread of its own, so that the loop never detokenises."""

import threading
from collections.abc import Callable
from queue import SimpleQueue

from antiphon.pipeline.messages import FrontMessage


class MessagePump:
    """An inbox and the thread that empties it. What may wait is bounded by what the requests in flight still say."""

    def __init__(self, receive: Callable[[FrontMessage], None]) -> None:
        self._receive = receive
        self._inbox: SimpleQueue[FrontMessage | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="antiphon-front", daemon=True)

    def put(self, message: FrontMessage) -> None:
        """Queue a message; never blocks."""
        self._inbox.put(message)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Deliver what waits, then end the thread."""
        self._inbox.put(None)
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while (message := self._inbox.get()) is not None:
            self._receive(message)
