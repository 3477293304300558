"""Traces of requests by OpenTelemetry: one span for each, and one in it for each stage.

Attributes have vLLM's names. What the SDK's own OTEL_ variables say (sampler, headers, batches, service name) counts.
Importing this needs the extra `otel`; nothing else of the package imports it at its top.
"""

import time
from collections.abc import Mapping

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from antiphon.core.errors import ConfigError
from antiphon.core.outputs import RequestMetrics

_SCOPE = "antiphon"
_NANOSECONDS = 1_000_000_000


class OtelTracing:
    """Starts traces; a `RequestTracing`.

    Args:
        provider: whose exporters get the spans.
    """

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer(_SCOPE)
        self._propagator = TraceContextTextMapPropagator()

    def start(
        self, name: str, headers: Mapping[str, str], *, request_id: str, model: str, waited_s: float
    ) -> "OtelTrace":
        submitted_ns = time.time_ns()
        parent = self._propagator.extract({key.lower(): value for key, value in headers.items()})
        span = self._tracer.start_span(
            name,
            parent,
            kind=SpanKind.SERVER,
            start_time=submitted_ns - _ns(waited_s),
            attributes={"gen_ai.request.id": request_id, "gen_ai.response.model": model},
        )
        return OtelTrace(self._tracer, span, submitted_ns, waited_s)

    def close(self) -> None:
        self._provider.shutdown()


class OtelTrace:
    """One request's spans; a `RequestTrace`."""

    def __init__(self, tracer: Tracer, span: Span, submitted_ns: int, waited_s: float) -> None:
        self._tracer, self._span, self._submitted_ns, self._waited_s = tracer, span, submitted_ns, waited_s
        self._stage("intake", -waited_s, 0.0)

    def finish(self, metrics: RequestMetrics, *, finish_reason: str, ttft_s: float | None, speaks: bool) -> None:
        waits_s = metrics.queue_wait_s or 0.0
        thinker, talker, code2wav = metrics.replicas
        self._stage("queue", 0.0, waits_s)
        self._stage("thinker", waits_s, metrics.text_finished_s, replica=thinker, tokens=metrics.num_text_tokens)
        if speaks:
            first_code_s = metrics.first_code_s or metrics.text_finished_s
            codes_end_s = metrics.codes_finished_s or metrics.total_s
            self._stage("talker", first_code_s, codes_end_s, replica=talker, tokens=metrics.num_codec_frames)
            self._stage("code2wav", first_code_s, metrics.total_s, replica=code2wav)
        attributes: dict[str, AttributeValue] = {
            "gen_ai.usage.prompt_tokens": metrics.num_prompt_tokens,
            "gen_ai.usage.completion_tokens": metrics.num_text_tokens,
            "gen_ai.latency.time_in_queue": waits_s,
            "gen_ai.latency.e2e": self._waited_s + metrics.total_s,
            "gen_ai.response.finish_reasons": (finish_reason,),
            "antiphon.audio_duration_s": metrics.audio_duration_s,
        }
        if ttft_s is not None:
            attributes["gen_ai.latency.time_to_first_token"] = ttft_s
        self._span.set_attributes(attributes)
        self._span.end()

    def fail(self, reason: str) -> None:
        self._span.set_status(StatusCode.ERROR, reason)
        self._span.end()

    def _stage(self, name: str, start_s: float, end_s: float, **attributes: int) -> None:
        """A part of the request, in seconds from when it was handed to the pipeline."""
        start_ns, end_ns = self._submitted_ns + _ns(start_s), self._submitted_ns + _ns(max(start_s, end_s))
        named = {f"antiphon.{key}": value for key, value in attributes.items()}
        span = self._tracer.start_span(name, set_span_in_context(self._span), start_time=start_ns, attributes=named)
        span.end(end_ns)


def open_tracing(endpoint: str | None, *, protocol: str, service_name: str, version: str) -> OtelTracing:
    """Send traces to *endpoint*; None: where the OTEL_ variables say. *protocol* is grpc or http/protobuf.

    Raises:
        ConfigError: another protocol.
    """
    provider = TracerProvider(resource=Resource.create({SERVICE_NAME: service_name, SERVICE_VERSION: version}))
    provider.add_span_processor(BatchSpanProcessor(_exporter(endpoint, protocol)))
    return OtelTracing(provider)


def _exporter(endpoint: str | None, protocol: str) -> SpanExporter:
    if protocol == "grpc":
        return GrpcExporter(endpoint, insecure=True if endpoint and endpoint.startswith("http://") else None)
    if protocol == "http/protobuf":
        return HttpExporter(endpoint)
    raise ConfigError(f"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL is {protocol!r}; known: grpc, http/protobuf")


def _ns(seconds: float) -> int:
    return round(seconds * _NANOSECONDS)
