"""Orders two roads into a worker: requests come from the front, their pieces from another worker.

A piece may overtake its request; it is held until the request is there. A piece of a request that is over is dropped.
Pieces are held for a bounded number of requests and bytes of patience: the oldest unknown request goes first.
"""

from collections import OrderedDict
from collections.abc import Callable

from antiphon.pipeline.messages import Abort, StagePiece, StageRequest

_MAX_UNKNOWN = 256  # requests whose pieces wait
_MAX_HELD = 64  # pieces of one of them
_MAX_OVER = 4096  # requests remembered as over


class PieceGate:
    """Forwards to *send* what may go. One thread.

    Args:
        send: the device loop's queue.
    """

    def __init__(self, send: Callable[[StageRequest | StagePiece | Abort], None]) -> None:
        self._send = send
        self._known: set[str] = set()
        self._held: OrderedDict[str, list[StagePiece]] = OrderedDict()
        self._over: OrderedDict[str, None] = OrderedDict()

    @property
    def num_held(self) -> int:
        return sum(map(len, self._held.values()))

    def admit(self, request: StageRequest) -> None:
        """A request from the front. Raises what *send* raises."""
        self._over.pop(request.request_id, None)
        self._send(request)
        self._known.add(request.request_id)
        for piece in self._held.pop(request.request_id, []):
            self._send(piece)

    def extend(self, piece: StagePiece) -> None:
        """A piece from another worker. Raises what *send* raises."""
        request_id = piece.request_id
        if request_id in self._known:
            self._send(piece)
        elif request_id not in self._over:
            waiting = self._held.setdefault(request_id, [])
            if len(waiting) < _MAX_HELD:
                waiting.append(piece)
            if len(self._held) > _MAX_UNKNOWN:
                self._held.popitem(last=False)

    def abort(self, abort: Abort) -> None:
        self.release(abort.request_id)
        self._send(abort)

    def release(self, request_id: str) -> None:
        """The request is over."""
        self._known.discard(request_id)
        self._held.pop(request_id, None)
        self._over[request_id] = None
        if len(self._over) > _MAX_OVER:
            self._over.popitem(last=False)
