"""The ends of edges that lie in one worker: where pieces come in, and which edge a request's pieces leave by."""

import time
from collections.abc import Callable, Sequence

import zmq

from antiphon.core.errors import AntiphonError, StateError
from antiphon.engine.counters import Counters
from antiphon.pipeline.connectors.connector import Inlet, Outlet
from antiphon.pipeline.connectors.shared_memory import SharedMemoryInlet, SharedMemoryOutlet
from antiphon.pipeline.connectors.zeromq import ZeroMQInlet, ZeroMQOutlet
from antiphon.pipeline.hand_overs import note_received
from antiphon.pipeline.messages import StagePiece
from antiphon.pipeline.processes.control import (
    EdgeBroken,
    InletOpened,
    OpenInlet,
    OpenOutlet,
    OutletOpened,
    edge_encoding,
)
from antiphon.pipeline.processes.edge_sender import EdgeSender


class WorkerEdges:
    """Everything but `send` runs on the worker's own thread; `send` runs on the device loop's.

    Args:
        put_timeout_s: how long a piece may wait for room at its consumer.
        fail: told which piece did not arrive, and why; from any thread.
        counters: where hand-overs are noted.
    """

    def __init__(
        self,
        *,
        put_timeout_s: float,
        fail: Callable[[StagePiece, AntiphonError], None],
        counters: Counters | None = None,
    ) -> None:
        self._counters = Counters() if counters is None else counters
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._put_timeout_s = put_timeout_s
        self._fail = fail
        self._encoding = edge_encoding()
        self._inlets: dict[str, tuple[int, Inlet]] = {}
        self._senders: dict[str, EdgeSender] = {}
        self._routes: dict[tuple[str, str], str] = {}  # request and stage to edge

    def open_inlet(self, order: OpenInlet) -> InletOpened | EdgeBroken:
        self._close_inlet(order.edge)
        try:
            inlet: Inlet = (
                SharedMemoryInlet(self._encoding, edge=order.edge)
                if order.transport == "shm"
                else ZeroMQInlet(self._context, self._encoding, order.host)
            )
        except AntiphonError as error:
            return EdgeBroken(edge=order.edge, generation=order.generation, message=str(error))
        self._inlets[order.edge] = (order.generation, inlet)
        return InletOpened(edge=order.edge, generation=order.generation, address=inlet.address)

    def open_outlet(self, order: OpenOutlet) -> OutletOpened | EdgeBroken:
        self._close_outlet(order.edge)
        try:
            outlet: Outlet = (
                SharedMemoryOutlet(order.address, self._encoding)
                if order.address.startswith("shm:")
                else ZeroMQOutlet(self._context, order.address, self._encoding)
            )
        except AntiphonError as error:
            return EdgeBroken(edge=order.edge, generation=order.generation, message=str(error))
        self._senders[order.edge] = EdgeSender(
            order.edge, outlet, timeout_s=self._put_timeout_s, fail=self._fail, counters=self._counters
        )
        return OutletOpened(edge=order.edge, generation=order.generation)

    def descriptors(self) -> list[int]:
        return [descriptor for _, inlet in self._inlets.values() for descriptor in inlet.descriptors()]

    def receive(self, take: Callable[[StagePiece], None]) -> list[EdgeBroken]:
        """Hand everything that has arrived to *take*; returns the edges that brought what is no message."""
        broken = []
        for edge, (generation, inlet) in list(self._inlets.items()):
            arrived_s = time.monotonic()
            try:
                messages = inlet.get()
            except StateError as error:
                broken.append(EdgeBroken(edge=edge, generation=generation, message=str(error)))
                self._close_inlet(edge)
                continue
            unpack_s = (time.monotonic() - arrived_s) / max(1, len(messages))
            for message in messages:
                piece, start_s = _piece(message), time.monotonic()
                take(piece)
                if piece.way is not None:
                    took_s = unpack_s + time.monotonic() - start_s
                    note_received(self._counters, piece.way, edge, arrived_s=arrived_s, took_s=took_s)
            if inlet.is_closed:
                self._close_inlet(edge)
        return broken

    def route(self, request_id: str, stage: str, edge: str) -> None:
        """Pieces of the request for *stage* leave by *edge*."""
        self._routes[request_id, stage] = edge

    def release(self, request_id: str, stages: Sequence[str]) -> None:
        for stage in stages:
            self._routes.pop((request_id, stage), None)

    def send(self, stage: str, piece: StagePiece) -> None:
        """Queue *piece* on its request's edge; never blocks.

        Raises:
            StateError: the request has no route (any more), or its edge is not open.
            CapacityError, ConnectorClosedError: as `EdgeSender.put`.
        """
        edge = self._routes.get((piece.request_id, stage))
        sender = self._senders.get(edge) if edge is not None else None
        if sender is None:
            raise StateError(f"request {piece.request_id} has no open way to a {stage} stage")
        sender.put(piece)

    def close_edge(self, edge: str) -> None:
        self._close_inlet(edge)
        self._close_outlet(edge)

    def close(self) -> None:
        for edge in {*self._inlets, *self._senders}:
            self.close_edge(edge)

    def _close_inlet(self, edge: str) -> None:
        known = self._inlets.pop(edge, None)
        if known is not None:
            known[1].close()

    def _close_outlet(self, edge: str) -> None:
        sender = self._senders.pop(edge, None)
        if sender is not None:
            sender.close()


def _piece(message: object) -> StagePiece:
    if not isinstance(message, StagePiece):
        raise StateError(f"a {type(message).__name__} came along an edge")
    return message
