"""The producer's side of an edge: a bounded queue and the thread that sends, so that the device loop never waits."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from queue import Full, Queue

from antiphon.core.errors import AntiphonError, CapacityError
from antiphon.engine.counters import Counters
from antiphon.pipeline.connectors.connector import ConnectorClosedError, Outlet
from antiphon.pipeline.hand_overs import note_sent
from antiphon.pipeline.messages import HandOver, SpokenPiece, SpokenUnit, StagePiece

_MAX_PIECES = 1024


class EdgeSender:
    """Owns *outlet*. A piece that cannot be sent ends its request, through *fail*, and no other.

    Args:
        outlet: used by the sending thread only.
        timeout_s: how long one piece may wait for room at the consumer.
        fail: told which piece did not arrive, and why; called on the sending thread.
        counters: where hand-overs are noted.
    """

    def __init__(
        self,
        edge: str,
        outlet: Outlet,
        *,
        timeout_s: float,
        fail: Callable[[StagePiece, AntiphonError], None],
        counters: Counters | None = None,
    ) -> None:
        self._edge = edge
        self._outlet = outlet
        self._timeout_s = timeout_s
        self._fail = fail
        self._counters = Counters() if counters is None else counters
        self._pieces: Queue[tuple[StagePiece, float] | None] = Queue(_MAX_PIECES)
        self._closed: ConnectorClosedError | None = None
        self._thread = threading.Thread(target=self._run, name=f"antiphon-edge-{edge}", daemon=True)
        self._thread.start()

    def put(self, piece: StagePiece) -> None:
        """Queue a piece; never blocks.

        Raises:
            CapacityError: the consumer is so slow that the queue is full.
            ConnectorClosedError: the consumer is gone.
        """
        if self._closed is not None:
            raise self._closed
        try:
            self._pieces.put_nowait((piece, time.monotonic()))
        except Full:
            raise CapacityError(
                f"edge {self._edge}: {_MAX_PIECES} pieces wait already; the next stage is too slow"
            ) from None

    def close(self) -> None:
        """Let the thread end after its present piece; those behind it are given up."""
        self._closed = self._closed or ConnectorClosedError(f"edge {self._edge} is closed")
        while True:
            try:
                self._pieces.put_nowait(None)
                break
            except Full:
                self._pieces.get_nowait()

    def _run(self) -> None:
        while (waiting := self._pieces.get()) is not None:
            piece, queued_s = waiting
            if self._closed is not None:
                self._fail(piece, self._closed)
                continue
            try:
                if isinstance(piece, (SpokenPiece, SpokenUnit)) and piece.ready is not None:
                    piece.ready.wait()
                    piece = replace(piece, ready=None)
                start_s = time.monotonic()
                self._outlet.put(replace(piece, way=HandOver(queued_s, start_s)), timeout_s=self._timeout_s)
                note_sent(self._counters, piece, self._edge, took_s=time.monotonic() - start_s)
            except ConnectorClosedError as error:
                self._closed = error
                self._fail(piece, error)
            except AntiphonError as error:
                self._fail(piece, error)
        self._outlet.close()
