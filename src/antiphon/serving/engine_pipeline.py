"""The engine behind the server's port."""

from collections.abc import Mapping, Sequence

from antiphon.pipeline.device_loop import CODE2WAV, TALKER, THINKER
from antiphon.pipeline.health import Health, StageHealth
from antiphon.pipeline.local_engine import LocalEngine
from antiphon.pipeline.orchestrator import RequestHandle
from antiphon.pipeline.process_engine import ProcessEngine
from antiphon.pipeline.request import GenerationRequest
from antiphon.pipeline.stage_facts import (
    StageGauges,
    StageObservation,
    local_gauges,
    local_observations,
    worker_gauges,
    worker_observations,
)


class EnginePipeline:
    """Answers with *engine*, which has been started."""

    def __init__(self, engine: LocalEngine | ProcessEngine) -> None:
        self._engine = engine
        self._is_closed = False

    def submit(self, request: GenerationRequest) -> RequestHandle:
        """Start *request*. Raises as `Orchestrator.submit`."""
        return self._engine.submit(request)

    def health(self) -> Health:
        if isinstance(self._engine, ProcessEngine):
            return self._engine.health()
        is_alive = self._engine.loop.death is None
        speaks = self._engine.model.talker is not None
        stages = tuple(
            StageHealth(name=name, num_replicas=1, num_ready=int(is_alive), num_restarting=0)
            for name in ((THINKER, TALKER, CODE2WAV) if speaks else (THINKER,))
        )
        return Health(is_live=is_alive, is_ready=is_alive, is_draining=False, stages=stages, workers=())

    def counters(self) -> Mapping[str, float]:
        engine = self._engine
        return engine.counters.snapshot() if isinstance(engine, LocalEngine) else engine.supervisor.counters()

    def gauges(self) -> Mapping[str, float]:
        front = self._engine.orchestrator
        return {
            **self._stage_states(),
            "requests_in_flight": front.num_requests,
            "requests_waiting": front.num_waiting,
        }

    def stage_gauges(self) -> Sequence[StageGauges]:
        engine = self._engine
        if isinstance(engine, LocalEngine):
            return local_gauges(engine.loop.snapshot())
        return worker_gauges(engine.layout, {name: said.gauges for name, said in engine.supervisor.status().items()})

    def take_observations(self) -> Sequence[StageObservation]:
        engine = self._engine
        if isinstance(engine, LocalEngine):
            return local_observations(engine.counters.take_observations())
        return worker_observations(engine.layout, engine.supervisor.take_observations())

    def _stage_states(self) -> Mapping[str, float]:
        engine = self._engine
        if isinstance(engine, LocalEngine):
            return engine.loop.snapshot()
        return {
            f"{worker}.{name}": value
            for worker, said in engine.supervisor.status().items()
            for name, value in said.gauges.items()
        }

    def close(self) -> None:
        """May be called again: a cut-off drain closes before the application does."""
        if self._is_closed:
            return
        self._is_closed = True
        self._engine.close()
