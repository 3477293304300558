"""`GET /metrics`."""

import asyncio
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from antiphon.serving.port import Pipeline
from antiphon.telemetry.families import CONTENT_TYPE, Families


@dataclass(frozen=True)
class MetricsEndpoint:
    """All families in Prometheus' text format."""

    families: Families
    pipeline: Pipeline

    async def __call__(self, _request: Request) -> Response:
        waiting = self.pipeline.gauges().get("requests_waiting", 0.0)
        self.families.of(self.families.num_requests_waiting).set(waiting)
        body = await asyncio.to_thread(self.families.render)
        return Response(body, headers={"Content-Type": CONTENT_TYPE})
