"""Joins the edges between workers as they come and go: who is told what, in which order. Decisions only.

The consumer opens an inlet, its address goes to the producer, the producer opens an outlet. When either end is gone the
other is told to close, and the edge's next life has the next generation; answers of an earlier one are ignored.
"""

from dataclasses import dataclass
from enum import Enum

from antiphon.pipeline.processes.control import CloseEdge, InletOpened, OpenInlet, OpenOutlet, OutletOpened
from antiphon.pipeline.processes.layout import EdgePlan, Layout

Order = tuple[str, OpenInlet | OpenOutlet | CloseEdge]  # worker, what it is told


class _EdgeState(Enum):
    CLOSED = "closed"
    OPENING_INLET = "opening inlet"
    OPENING_OUTLET = "opening outlet"
    JOINED = "joined"


@dataclass
class _Edge:
    plan: EdgePlan
    state: _EdgeState = _EdgeState.CLOSED
    generation: int = 0


class Wiring:
    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._edges = {plan.name: _Edge(plan) for plan in layout.edges}
        self._up: set[str] = set()

    def is_wired(self, worker: str) -> bool:
        """Whether every edge between *worker* and a worker that is up is joined."""
        return worker in self._up and all(
            edge.state is _EdgeState.JOINED
            for edge in self._edges_of(worker)
            if {edge.plan.producer, edge.plan.consumer} <= self._up
        )

    def add(self, worker: str) -> list[Order]:
        """*worker* has its stages ready."""
        self._up.add(worker)
        orders: list[Order] = []
        for edge in self._edges_of(worker):
            if {edge.plan.producer, edge.plan.consumer} <= self._up:
                edge.state = _EdgeState.OPENING_INLET
                edge.generation += 1
                order = OpenInlet(
                    edge=edge.plan.name,
                    generation=edge.generation,
                    transport=edge.plan.transport,
                    host=self._layout.worker(edge.plan.consumer).host,
                )
                orders.append((edge.plan.consumer, order))
        return orders

    def inlet_opened(self, message: InletOpened) -> list[Order]:
        edge = self._edges[message.edge]
        if edge.generation != message.generation or edge.state is not _EdgeState.OPENING_INLET:
            return []
        edge.state = _EdgeState.OPENING_OUTLET
        order = OpenOutlet(edge=message.edge, generation=message.generation, address=message.address)
        return [(edge.plan.producer, order)]

    def outlet_opened(self, message: OutletOpened) -> None:
        edge = self._edges[message.edge]
        if edge.generation == message.generation and edge.state is _EdgeState.OPENING_OUTLET:
            edge.state = _EdgeState.JOINED

    def remove(self, worker: str) -> list[Order]:
        """*worker* is gone."""
        self._up.discard(worker)
        orders: list[Order] = []
        for edge in self._edges_of(worker):
            other = edge.plan.consumer if worker == edge.plan.producer else edge.plan.producer
            if edge.state is not _EdgeState.CLOSED and other in self._up:
                orders.append((other, CloseEdge(edge=edge.plan.name)))
            edge.state = _EdgeState.CLOSED
        return orders

    def is_current(self, edge: str, generation: int) -> bool:
        """Whether a message about this life of *edge* still concerns anyone."""
        return self._edges[edge].generation == generation and self._edges[edge].state is not _EdgeState.CLOSED

    def consumer(self, edge: str) -> str:
        return self._edges[edge].plan.consumer

    def _edges_of(self, worker: str) -> list[_Edge]:
        return [edge for edge in self._edges.values() if worker in (edge.plan.producer, edge.plan.consumer)]
