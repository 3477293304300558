"""Begins to follow a request: what `RequestWatch` is given, from the request and from what the operator turned on."""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

from starlette.requests import Request

from antiphon.serving.context import ARRIVAL_S
from antiphon.serving.watch import RequestWatch
from antiphon.telemetry.families import Families
from antiphon.telemetry.traces import RequestTracing


@dataclass(frozen=True, kw_only=True)
class Watching:
    """None: metrics, or traces, are off."""

    model: str
    families: Families | None = None
    tracing: RequestTracing | None = None
    clock: Callable[[], float] = perf_counter

    def watch(self, request: Request, request_id: str, *, speaks: bool, is_streamed: bool) -> RequestWatch:
        """Follow *request*, which goes to the pipeline next. The watch must be told how it ends."""
        arrival_s: float = getattr(request.state, ARRIVAL_S)
        trace = None
        if self.tracing is not None:
            trace = self.tracing.start(
                f"{request.method} {request.url.path}",
                request.headers,
                request_id=request_id,
                model=self.model,
                waited_s=self.clock() - arrival_s,
            )
        return RequestWatch(
            self.families,
            arrival_s=arrival_s,
            speaks=speaks,
            is_streamed=is_streamed,
            trace=trace,
            clock=self.clock,
        )
