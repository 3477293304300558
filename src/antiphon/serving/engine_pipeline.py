"""The engine behind the server's port."""

from collections.abc import Mapping

from antiphon.pipeline.device_loop import CODE2WAV, TALKER, THINKER
from antiphon.pipeline.health import Health, StageHealth
from antiphon.pipeline.local_engine import LocalEngine
from antiphon.pipeline.orchestrator import RequestHandle
from antiphon.pipeline.process_engine import ProcessEngine
from antiphon.pipeline.request import GenerationRequest


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
        return self._engine.counters.snapshot() if isinstance(self._engine, LocalEngine) else {}

    def gauges(self) -> Mapping[str, float]:
        gauges = self._engine.loop.snapshot() if isinstance(self._engine, LocalEngine) else self._engine.snapshot()
        return {**gauges, "requests_in_flight": self._engine.orchestrator.num_requests}

    def close(self) -> None:
        """May be called again: a cut-off drain closes before the application does."""
        if self._is_closed:
            return
        self._is_closed = True
        self._engine.close()
