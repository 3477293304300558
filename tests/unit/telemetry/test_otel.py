"""Traces through an exporter that keeps them in memory."""

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from antiphon.core.errors import ConfigError
from antiphon.core.outputs import RequestMetrics
from antiphon.telemetry.otel import OtelTracing, open_tracing

METRICS = RequestMetrics(
    num_prompt_tokens=10,
    num_text_tokens=5,
    num_codec_frames=50,
    audio_duration_s=2.0,
    time_to_first_text_s=0.1,
    text_finished_s=0.5,
    time_to_first_audio_s=0.3,
    total_s=1.0,
    queue_wait_s=0.05,
    first_code_s=0.2,
    codes_finished_s=0.8,
    replicas=(0, 1, 0),
)
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Traced:
    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracing = OtelTracing(provider)

    def spans(self) -> dict[str, ReadableSpan]:
        return {span.name: span for span in self.exporter.get_finished_spans()}


def length_s(span: ReadableSpan) -> float:
    assert span.start_time is not None
    assert span.end_time is not None
    return (span.end_time - span.start_time) / 1e9


def test_a_spoken_answer_is_a_span_with_one_for_each_stage() -> None:
    traced = Traced()
    trace = traced.tracing.start("POST /x", {}, request_id="r", model="omni", waited_s=0.25)
    trace.finish(METRICS, finish_reason="stop", ttft_s=0.35, speaks=True)
    spans = traced.spans()
    root = spans.pop("POST /x")
    assert set(spans) == {"intake", "queue", "thinker", "talker", "code2wav"}
    lengths = {name: round(length_s(span), 3) for name, span in spans.items()}
    assert lengths == {"intake": 0.25, "queue": 0.05, "thinker": 0.45, "talker": 0.6, "code2wav": 0.8}
    assert all(span.parent is not None and span.parent.span_id == root.context.span_id for span in spans.values())
    assert root.attributes is not None
    assert root.attributes["gen_ai.usage.prompt_tokens"] == 10
    assert root.attributes["gen_ai.latency.e2e"] == pytest.approx(1.25)
    assert root.attributes["gen_ai.latency.time_to_first_token"] == 0.35
    assert spans["talker"].attributes == {"antiphon.replica": 1, "antiphon.tokens": 50}


def test_a_text_answer_has_no_spans_of_speech() -> None:
    traced = Traced()
    trace = traced.tracing.start("POST /x", {}, request_id="r", model="omni", waited_s=0.0)
    trace.finish(METRICS, finish_reason="stop", ttft_s=None, speaks=False)
    assert set(traced.spans()) == {"POST /x", "intake", "queue", "thinker"}


def test_the_callers_trace_goes_on() -> None:
    traced = Traced()
    traced.tracing.start("POST /x", {"Traceparent": PARENT}, request_id="r", model="m", waited_s=0.0).fail("gone")
    root = traced.spans()["POST /x"]
    assert root.parent is not None
    assert f"{root.context.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"
    assert f"{root.parent.span_id:016x}" == "b7ad6b7169203331"
    assert (root.status.is_ok, root.status.description) == (False, "gone")


def test_a_broken_traceparent_starts_a_trace_of_its_own() -> None:
    traced = Traced()
    traced.tracing.start("POST /x", {"traceparent": "00-zz"}, request_id="r", model="m", waited_s=0.0).fail("gone")
    assert traced.spans()["POST /x"].parent is None


def test_an_unknown_protocol_is_refused() -> None:
    with pytest.raises(ConfigError, match="http/protobuf"):
        open_tracing(None, protocol="carrier pigeon", service_name="x", version="1")


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_both_protocols_can_be_opened_and_closed(protocol: str) -> None:
    open_tracing("http://127.0.0.1:9", protocol=protocol, service_name="x", version="1").close()
