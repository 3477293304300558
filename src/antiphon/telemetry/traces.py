"""What a request's trace is told. Who sends traces (`antiphon.telemetry.otel`) needs packages that may be missing."""

from collections.abc import Mapping
from typing import Protocol

from antiphon.core.outputs import RequestMetrics


class RequestTrace(Protocol):
    """One request. It ends once, by either method."""

    def finish(self, metrics: RequestMetrics, *, finish_reason: str, ttft_s: float | None, speaks: bool) -> None:
        """It was answered. *ttft_s*: from its arrival."""
        ...

    def fail(self, reason: str) -> None:
        """It ended otherwise."""
        ...


class RequestTracing(Protocol):
    """Starts a trace for each request."""

    def start(
        self, name: str, headers: Mapping[str, str], *, request_id: str, model: str, waited_s: float
    ) -> RequestTrace:
        """Begin the trace of a request that is handed to the pipeline now.

        Args:
            name: method and route.
            headers: of the request: a `traceparent` there is its parent.
            waited_s: since it arrived.
        """
        ...

    def close(self) -> None:
        """Send what is left."""
        ...
