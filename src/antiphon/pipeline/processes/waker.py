"""Wakes a thread that sleeps in poll()."""

import socket
from contextlib import suppress


class Waker:
    """A byte in a pipe. `wake` may be called from any thread and from a signal handler's wake-up descriptor."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)

    def fileno(self) -> int:
        """What to poll for reading."""
        return self._reader.fileno()

    def writer_fileno(self) -> int:
        return self._writer.fileno()

    def wake(self) -> None:
        with suppress(BlockingIOError):  # full: it will wake anyway
            self._writer.send(b"\0")

    def rest(self) -> None:
        """Forget the calls so far. Do this before looking for what they announced."""
        with suppress(BlockingIOError):
            while self._reader.recv(4096):
                pass

    def close(self) -> None:
        self._reader.close()
        self._writer.close()
