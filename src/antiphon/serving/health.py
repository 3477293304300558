"""`GET /health`, and the two questions a supervisor asks: is it alive, may it be given requests."""

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from antiphon.serving.lifecycle import Lifecycle
from antiphon.serving.port import Pipeline

OK, UNAVAILABLE = 200, 503


@dataclass(frozen=True)
class HealthEndpoints:
    """Says what the pipeline says, and whether the server drains."""

    pipeline: Pipeline
    lifecycle: Lifecycle

    async def health(self, _request: Request) -> Response:
        """Healthy: every stage has a live replica, and requests are taken."""
        health = self.pipeline.health()
        is_draining = self.lifecycle.is_draining or health.is_draining
        is_healthy = health.is_ready and not is_draining
        body: dict[str, object] = {"status": "healthy" if is_healthy else "unhealthy"}
        if is_draining:
            body["reason"] = "draining"
        body["live"] = health.is_live
        body["ready"] = is_healthy
        body["stages"] = {
            stage.name: {"state": stage.state, "replicas": stage.num_replicas, "ready": stage.num_ready}
            for stage in health.stages
        }
        return JSONResponse(body, status_code=OK if is_healthy else UNAVAILABLE)

    async def live(self, _request: Request) -> Response:
        """Alive as long as a restart would not help."""
        is_live = self.pipeline.health().is_live
        return JSONResponse({"status": "live" if is_live else "dead"}, status_code=OK if is_live else UNAVAILABLE)

    async def ready(self, _request: Request) -> Response:
        """Ready if a request that uses all stages can be taken now."""
        is_ready = self.pipeline.health().is_ready and not self.lifecycle.is_draining
        body = {"status": "ready" if is_ready else "not ready"}
        return JSONResponse(body, status_code=OK if is_ready else UNAVAILABLE)

    async def ping(self, _request: Request) -> Response:
        return Response(status_code=OK)
