"""`GET /metrics`."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from antiphon.pipeline.stage_facts import StageObservation
from antiphon.serving.port import Pipeline
from antiphon.telemetry.families import CONTENT_TYPE, Families
from antiphon.telemetry.vllm_families import waiting_sequences


@dataclass(frozen=True)
class MetricsEndpoint:
    """All families in Prometheus' text format. *refresh_live*: takes over what live sessions count."""

    families: Families
    pipeline: Pipeline
    refresh_live: Callable[[Families], None]

    async def __call__(self, _request: Request) -> Response:
        self.refresh_live(self.families)  # sessions belong to the event loop; the rest may wait for the stages
        body = await asyncio.to_thread(self._page)
        return Response(body, headers={"Content-Type": CONTENT_TYPE})

    def _page(self) -> bytes:
        families = self.families
        for item in self.pipeline.take_observations():
            observe(families, item)
        stages = self.pipeline.stage_gauges()
        families.refresh((item.stage, item.replica, item.values) for item in stages)
        unsent = self.pipeline.gauges().get("requests_waiting", 0.0)
        not_begun = sum(waiting_sequences(item.values) for item in stages if item.stage == 0)
        families.of(families.num_requests_waiting).set(unsent + not_begun)
        return families.render()


def observe(families: Families, item: StageObservation) -> None:
    """Give one observation to its family."""
    if item.family == "stage_in_queue_s":
        families.of(families.stage_in_queue_s, str(item.stage)).observe(item.value)
        families.vllm.of(families.vllm.queue_s, str(item.stage), str(item.replica)).observe(item.value)
    elif item.family == "kv_wait_s":
        families.of(families.kv_wait_s, item.connector).observe(item.value)
    else:
        families.hop(item.family, item.value, (item.stage - 1, item.from_replica, item.stage, item.replica))
