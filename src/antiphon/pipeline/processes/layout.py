"""Which worker holds which stages on which device, and which workers are joined by an edge. Decided once, at start."""

from dataclasses import dataclass, replace
from itertools import pairwise

from antiphon.config.deploy import PIPELINES, ZEROMQ, DeployConfig, StageConfig
from antiphon.core.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class WorkerPlan:
    """One worker process. `stages` are in the order of the pipeline."""

    name: str
    stages: tuple[str, ...]
    device: str  # a torch device
    peers: tuple[str, ...] = ()  # those of the further ranks of a tensor-parallel Thinker
    env: tuple[tuple[str, str], ...] = ()  # exported to its process
    host: str = "127.0.0.1"  # where its ZeroMQ inlets listen


@dataclass(frozen=True, kw_only=True)
class EdgePlan:
    """Pieces for `stage` go from worker *producer* to worker *consumer*."""

    producer: str
    consumer: str
    stage: str  # of the consumer
    transport: str = "shm"  # or tcp

    @property
    def name(self) -> str:
        return f"{self.producer}.{self.consumer}.{self.stage}"


@dataclass(frozen=True, kw_only=True)
class Layout:
    stages: tuple[str, ...]
    workers: tuple[WorkerPlan, ...]
    edges: tuple[EdgePlan, ...]

    def worker(self, name: str) -> WorkerPlan:
        return next(worker for worker in self.workers if worker.name == name)

    def replica(self, stage: str, worker: str) -> int:
        """The number of *worker* among those that hold *stage*; 0 for one that does not."""
        names = [plan.name for plan in self.workers if stage in plan.stages]
        return names.index(worker) if worker in names else 0

    def next_stage(self, stage: str) -> str | None:
        index = self.stages.index(stage) + 1
        return self.stages[index] if index < len(self.stages) else None

    def edges_of(self, worker: str) -> tuple[EdgePlan, ...]:
        return tuple(edge for edge in self.edges if worker in (edge.producer, edge.consumer))


def join_workers(stages: tuple[str, ...], workers: tuple[WorkerPlan, ...], *, transport: str = "shm") -> Layout:
    """A layout with an edge wherever a stage's successor lives in other workers only.

    Raises:
        ConfigError: a stage has no worker.
    """
    missing = [stage for stage in stages if not any(stage in worker.stages for worker in workers)]
    if missing:
        raise ConfigError(f"no worker holds {', '.join(missing)}; give every stage at least one replica")
    edges = [
        EdgePlan(producer=producer.name, consumer=consumer.name, stage=following, transport=transport)
        for stage, following in pairwise(stages)
        for producer in workers
        if stage in producer.stages and following not in producer.stages
        for consumer in workers
        if following in consumer.stages
    ]
    return Layout(stages=stages, workers=workers, edges=tuple(edges))


def only_stages(layout: Layout, stages: tuple[str, ...]) -> Layout:
    """*layout* without the other stages, and without the workers that held nothing else."""
    workers = tuple(
        replace(worker, stages=tuple(stage for stage in worker.stages if stage in stages)) for worker in layout.workers
    )
    transport = layout.edges[0].transport if layout.edges else "shm"
    return join_workers(stages, tuple(worker for worker in workers if worker.stages), transport=transport)


def plan_layout(deploy: DeployConfig) -> Layout:
    """One worker for each device group of *deploy*: stages with the same devices share it, and a tensor-parallel one
    has a worker of several devices to itself.

    A second replica of a stage on the same devices gets a worker of its own.

    Raises:
        ConfigError: a stage without a local replica.
    """
    shape = PIPELINES[deploy.pipeline]
    groups: list[tuple[tuple[int, ...], list[StageConfig]]] = []
    for stage in deploy.stages:
        for devices in stage.replica_devices():
            held = next((held for at, held in groups if at == devices and stage not in held), None)
            if held is None:
                groups.append((devices, [stage]))
            else:
                held.append(stage)
    network = [connector.extra.host for connector in deploy.connectors.values() if connector.name == ZEROMQ]
    workers = tuple(
        WorkerPlan(
            name=f"w{index}",
            host=network[0] if network else "127.0.0.1",
            stages=tuple(stage.name for stage in held),
            device=_torch_device(deploy, devices[0]),
            peers=tuple(_torch_device(deploy, device) for device in devices[1:]),
            env=tuple(sorted({key: value for stage in held for key, value in stage.env.items()}.items())),
        )
        for index, (devices, held) in enumerate(groups)
    )
    return join_workers(shape.stage_names, workers, transport="tcp" if network else "shm")


def _torch_device(deploy: DeployConfig, index: int) -> str:
    return "cpu" if deploy.platform == "cpu" else f"cuda:{index}"
