"""Frames on their way to one socket, bounded; what is too much for the client is not kept for it."""

from collections import deque
from dataclasses import dataclass

from antiphon.realtime.limits import Limits


@dataclass(frozen=True)
class SocketClose:
    code: int
    reason: str


class Outbox:
    """One attachment's queue. A reserve is kept for errors and ends, so that they can still be told.

    The session writes, the socket's pump reads. After `close` nothing more is taken in.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._frames: deque[bytes] = deque()
        self._num_bytes = 0
        self.is_overflown = False
        self.closing: SocketClose | None = None

    @property
    def has_work(self) -> bool:
        return bool(self._frames) or self.closing is not None

    def put(self, frame: bytes, *, is_reserved: bool = False, is_replay: bool = False) -> bool:
        """Queue *frame*. False: the queue is closed or full; the latter is remembered.

        A replay is bounded by the journal it comes from, so it always fits.
        """
        if self.closing is not None:
            return False
        limits = self._limits
        max_bytes = limits.max_pending_output_bytes + limits.reserved_output_bytes * is_reserved
        max_events = limits.max_pending_output_events + limits.reserved_output_events * is_reserved
        # One frame always fits into an empty queue: else a public session object alone could be too large.
        is_full = self._num_bytes + len(frame) > max_bytes or len(self._frames) >= max_events
        if self._frames and is_full and not is_replay:
            self.is_overflown = True
            return False
        self._frames.append(frame)
        self._num_bytes += len(frame)
        return True

    def put_terminal(self, frame: bytes) -> None:
        """The session's one terminal event has a place of its own."""
        if self.closing is None:
            self._frames.append(frame)
            self._num_bytes += len(frame)

    def close(self, code: int, reason: str) -> None:
        """Close the socket once everything queued is sent."""
        if self.closing is None:
            self.closing = SocketClose(code, reason)

    def get(self) -> bytes | None:
        """The next frame; None if none waits."""
        if not self._frames:
            return None
        frame = self._frames.popleft()
        self._num_bytes -= len(frame)
        return frame
