"""Gauges and observations with the stage and replica they are of, numbered as the reference numbers them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from antiphon.core.sampling import STAGE_NAMES
from antiphon.engine.counters import Observation
from antiphon.pipeline.processes.layout import Layout

LOCAL = "memory"  # the connector of stages in one worker: a pointer is handed over


@dataclass(frozen=True, kw_only=True)
class StageGauges:
    """What one replica of a stage says of itself; see `Stage.snapshot`."""

    stage: int
    replica: int
    values: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class StageObservation:
    """An `Observation` with its place. A hop comes from `from_replica` of the stage before."""

    family: str
    value: float
    stage: int
    replica: int = 0
    from_replica: int = 0
    connector: str = LOCAL


def local_gauges(snapshot: Mapping[str, float]) -> list[StageGauges]:
    """Of a device loop's *snapshot*, for each stage in it."""
    return [
        StageGauges(stage=number, replica=0, values=values)
        for number, name in enumerate(STAGE_NAMES)
        if (values := _of_stage(snapshot, name))
    ]


def worker_gauges(layout: Layout, snapshots: Mapping[str, Mapping[str, float]]) -> list[StageGauges]:
    """Of the workers' *snapshots*, by worker; one that has said nothing yet is left out."""
    return [
        StageGauges(stage=STAGE_NAMES.index(name), replica=layout.replica(name, worker), values=values)
        for worker, snapshot in snapshots.items()
        for name in layout.worker(worker).stages
        if (values := _of_stage(snapshot, name))
    ]


def local_observations(observations: Sequence[Observation]) -> list[StageObservation]:
    """Of stages that are all in this process."""
    return [
        StageObservation(family=item.family, value=item.value, stage=STAGE_NAMES.index(item.stage))
        for item in observations
    ]


def worker_observations(layout: Layout, observations: Sequence[tuple[str, Observation]]) -> list[StageObservation]:
    """Each with the worker that made it."""
    edges = {edge.name: edge for edge in layout.edges}
    placed = []
    for worker, item in observations:
        stage, edge = STAGE_NAMES.index(item.stage), edges.get(item.edge)
        consumer, producer = (worker, worker) if edge is None else (edge.consumer, edge.producer)
        placed.append(
            StageObservation(
                family=item.family,
                value=item.value,
                stage=stage,
                replica=layout.replica(item.stage, consumer),
                from_replica=layout.replica(STAGE_NAMES[stage - 1], producer) if stage else 0,
                connector=LOCAL if edge is None else edge.transport,
            )
        )
    return placed


def _of_stage(snapshot: Mapping[str, float], name: str) -> dict[str, float]:
    prefix = f"{name}."
    return {key.removeprefix(prefix): value for key, value in snapshot.items() if key.startswith(prefix)}
