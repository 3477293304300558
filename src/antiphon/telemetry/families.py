"""The metric families: vLLM-Omni's names and buckets, vLLM's for each stage, and ours under `antiphon:`.

Each server has its own registry. Stage and replica are labels; times are seconds.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from antiphon.telemetry.vllm_families import VllmFamilies, waiting_sequences

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SLOW_S = (0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300)
FINE_S = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60)
RATIO = (0.1, 0.25, 0.5, 0.75, 0.9, 1, 1.25, 1.5, 2, 5, 10)
SIZE_BYTES = tuple(1024 * 4**power for power in range(10))
CONTINUITY_MS = 100  # a listener does not notice a shorter gap
LATE_S = (0, *FINE_S)
_PREFIX, _OURS = "vllm_omni:", "antiphon:"

Family = TypeVar("Family", Counter, Gauge, Histogram)


class Families:
    """All metrics of one server of *model_name*."""

    def __init__(self, model_name: str) -> None:
        self.registry = CollectorRegistry()
        self._model_name = model_name
        self.num_requests_running = self._gauge("num_requests_running", "requests being answered")
        self.num_requests_waiting = self._gauge("num_requests_waiting", "requests accepted, not yet in a stage")
        self.e2e_request_latency_s = self._histogram("e2e_request_latency_s", "arrival to finished", SLOW_S)
        self.requests_success = self._counter("requests_success", "requests by how they ended", "finished_reason")
        self.requests_failed = self._counter("requests_failed", "requests that failed", "reason")
        self.prompt_tokens = self._counter("prompt_tokens", "prompt tokens")
        self.generation_tokens = self._counter("generation_tokens", "text tokens and codec frames")
        stage = ("stage", "replica")
        self.audio_ttfp_s = self._histogram("audio_ttfp_s", "arrival to first audio of a stream", SLOW_S, *stage)
        self.audio_duration_s = self._histogram("audio_duration_s", "length of the speech", SLOW_S, *stage)
        self.audio_rtf = self._histogram("audio_rtf", "generation time by length of the speech", RATIO, *stage)
        self.audio_frames = self._counter("audio_frames", "samples of speech", *stage)
        self.audio_underrun_s = self._histogram("audio_underrun_s", "worst deficit of a player", FINE_S, *stage)
        self.audio_continuity_ok = self._counter(
            "audio_continuity_ok", "streams without an audible gap", *stage, "threshold_ms"
        )
        self.audio_skipped_requests = self._counter(
            "audio_skipped_requests", "speech asked for, none made", *stage, "reason"
        )
        self.speech_stream_completed = self._counter("speech_stream_completed", "speech endpoint: ended")
        self.speech_stream_aborted = self._counter("speech_stream_aborted", "speech endpoint: cut off", "reason")
        hop = ("from_stage", "from_replica", "to_stage", "to_replica")
        self.transfer_size_bytes = self._histogram("transfer_size_bytes", "one hand-over", SIZE_BYTES, *hop)
        self.transfer_tx_s = self._histogram("transfer_tx_s", "sending", FINE_S, *hop)
        self.transfer_rx_s = self._histogram("transfer_rx_s", "receiving", FINE_S, *hop)
        self.transfer_in_flight_s = self._histogram(
            "transfer_in_flight_s", "from the start of sending to the arrival", FINE_S, *hop
        )
        self.stage_gen_time_s = self._histogram("stage_gen_time_s", "time in a stage", SLOW_S, "stage", "stage_type")
        self.request_queue_wait_s = self._histogram("request_queue_wait_s", "accepted to stage", SLOW_S)
        self.stage_waiting_requests = self._gauge("stage_waiting_requests", "queue of a stage", "stage")
        self.stage_in_queue_s = self._histogram("stage_in_queue_s", "waiting in front of a stage", SLOW_S, "stage")
        self.kv_wait_s = self._histogram(
            "kv_wait_s", "from a finished piece to the next stage", SLOW_S, "connector_type"
        )
        self.vad_active_sessions = self._gauge("realtime_vad_active_sessions", "sessions with a detector")
        self.vad_inference_latency_s = self._histogram("realtime_vad_inference_latency_s", "one frame's score", FINE_S)
        self.vad_endpoint_delay_s = self._histogram(
            "realtime_vad_endpoint_delay_s", "sound from the end of speech to its detection", FINE_S
        )
        self.vad_errors = self._counter("realtime_vad_errors", "detectors that failed")
        self.vllm = VllmFamilies(model_name, self.registry)
        self.ttft_s = self._histogram("time_to_first_text_s", "arrival to first text of a stream", FINE_S)
        self.unit_decision_s = self._histogram(
            "unit_decision_s", "live sessions: a second of input to the decision on it", FINE_S, prefix=_OURS
        )
        self.unit_audio_s = self._histogram(
            "unit_audio_s", "live sessions: a second of input to its speech", FINE_S, prefix=_OURS
        )
        self.unit_late_s = self._histogram(
            "unit_late_s", "live sessions: end of a unit behind its second; 0 is in time", LATE_S, prefix=_OURS
        )
        self.media_s = self._histogram("media_prepare_s", "fetching and decoding of a request's media", FINE_S)

    def watch(self, counters: Callable[[], Mapping[str, float]], gauges: Callable[[], Mapping[str, float]]) -> None:
        """Also export what the engine counts: *counters* only rise (graph hits, fall-backs), *gauges* do not."""
        self.registry.register(_EngineCollector(self._model_name, counters, gauges))

    def hop(self, family: str, value: float, places: tuple[int, int, int, int]) -> None:
        """One value of a `transfer_` *family*; *places* are stage and replica it left and those it came to."""
        histograms = {
            "transfer_size_bytes": self.transfer_size_bytes,
            "transfer_tx_s": self.transfer_tx_s,
            "transfer_rx_s": self.transfer_rx_s,
            "transfer_in_flight_s": self.transfer_in_flight_s,
        }
        self.of(histograms[family], *map(str, places)).observe(value)

    def refresh(self, stages: Iterable[tuple[int, int, Mapping[str, float]]]) -> None:
        """Take over what the *stages* say of themselves: number, replica, gauges."""
        waiting: dict[int, float] = {}
        for stage, replica, values in stages:
            self.vllm.refresh(stage, replica, values)
            waiting[stage] = waiting.get(stage, 0.0) + waiting_sequences(values)
        for stage, count in waiting.items():
            self.of(self.stage_waiting_requests, str(stage)).set(count)

    def of(self, family: Family, *labels: str) -> Family:
        """The member of *family* with this model's name and *labels*."""
        return family.labels(self._model_name, *labels)

    def render(self) -> bytes:
        """All families in the text format."""
        return generate_latest(self.registry)

    def _gauge(self, name: str, about: str, *labels: str) -> Gauge:
        return Gauge(_PREFIX + name, about, ("model_name", *labels), registry=self.registry)

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(_PREFIX + name, about, ("model_name", *labels), registry=self.registry)

    def _histogram(
        self, name: str, about: str, buckets: Iterable[float], *labels: str, prefix: str = _PREFIX
    ) -> Histogram:
        names = ("model_name", *labels)
        return Histogram(prefix + name, about, names, registry=self.registry, buckets=tuple(buckets))


class _EngineCollector(Collector):
    def __init__(
        self,
        model_name: str,
        counters: Callable[[], Mapping[str, float]],
        gauges: Callable[[], Mapping[str, float]],
    ) -> None:
        self._model_name = model_name
        self._counters = counters
        self._gauges = gauges

    def collect(self) -> Iterable[Metric]:
        events = CounterMetricFamily(
            "antiphon:engine_events", "uses and fall-backs of fast paths", labels=("model_name", "event")
        )
        for name, value in sorted(self._counters().items()):
            events.add_metric((self._model_name, name), value)
        yield events
        state = GaugeMetricFamily("antiphon:engine_state", "blocks, slots and queues", labels=("model_name", "name"))
        for name, value in sorted(self._gauges().items()):
            state.add_metric((self._model_name, name), value)
        yield state
