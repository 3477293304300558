"""The families of vLLM's own dashboards, for each stage and replica instead of each engine."""

import threading
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector

_PREFIX = "vllm:"
Family = TypeVar("Family", Counter, Gauge, Histogram)
_LABELS = ("model_name", "stage", "replica")
FIRST_TOKEN_S = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
    *(20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
NEXT_TOKEN_S = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
)
REQUEST_S = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0),
    *(960.0, 1920.0, 7680.0),
)


class VllmFamilies:
    """Everything here means what it means in vLLM, of one stage. Codec frames are the Talker's generated tokens."""

    def __init__(self, model_name: str, registry: CollectorRegistry) -> None:
        self._model_name, self._registry = model_name, registry
        self.running = self._gauge("num_requests_running", "sequences that are computed")
        self.waiting = self._gauge("num_requests_waiting", "sequences in front of the stage")
        self.kv_usage = self._gauge("kv_cache_usage_perc", "share of KV blocks, or slots, in use; 1 is all")
        self.prompt_tokens = self._counter("prompt_tokens", "prompt tokens")
        self.generation_tokens = self._counter("generation_tokens", "drawn tokens")
        self.success = Counter(
            _PREFIX + "request_success", "requests that ended", (*_LABELS, "finished_reason"), registry=registry
        )
        self.prefix_queries = self._counter("prefix_cache_queries", "prompt tokens looked for in the prefix cache")
        self.prefix_hits = self._counter("prefix_cache_hits", "prompt tokens found in the prefix cache")
        self.preemptions = self._counter("num_preemptions", "sequences that lost their seat")
        self.first_token_s = self._histogram("time_to_first_token_seconds", "arrival to first token", FIRST_TOKEN_S)
        self.request_s = self._histogram("e2e_request_latency_seconds", "arrival to the stage's end", REQUEST_S)
        self.queue_s = self._histogram("request_queue_time_seconds", "waiting in front of the stage", REQUEST_S)
        self.token_gaps = TokenGaps(model_name)
        registry.register(self.token_gaps)
        self._seen: dict[tuple[str, str, str], float] = {}

    def of(self, family: Family, stage: str, replica: str, *labels: str) -> Family:
        """The member of *family* with this model's name and its place."""
        return family.labels(self._model_name, stage, replica, *labels)

    def refresh(self, stage: int, replica: int, values: Mapping[str, float]) -> None:
        """Take over what one replica of a stage says of itself (`Stage.snapshot`)."""
        place = (self._model_name, str(stage), str(replica))
        for gauge, value in (
            (self.running, running_sequences(values)),
            (self.waiting, waiting_sequences(values)),
            (self.kv_usage, cache_usage(values)),
        ):
            gauge.labels(*place).set(value)
        for name, counter in (
            ("prefix_asked_tokens", self.prefix_queries),
            ("prefix_hit_tokens", self.prefix_hits),
            ("preemptions", self.preemptions),
        ):
            if name in values:
                counter.labels(*place).inc(self._rise(*place[1:], name, values[name]))

    def _rise(self, stage: str, replica: str, name: str, value: float) -> float:
        """By how much a count has risen; a worker that was started again counts from 0."""
        before = self._seen.get((stage, replica, name), 0.0)
        self._seen[stage, replica, name] = value
        return value - before if value >= before else value

    def _gauge(self, name: str, about: str) -> Gauge:
        return Gauge(_PREFIX + name, about, _LABELS, registry=self._registry)

    def _counter(self, name: str, about: str) -> Counter:
        return Counter(_PREFIX + name, about, _LABELS, registry=self._registry)

    def _histogram(self, name: str, about: str, buckets: Iterable[float]) -> Histogram:
        return Histogram(_PREFIX + name, about, _LABELS, registry=self._registry, buckets=tuple(buckets))


class TokenGaps(Collector):
    """Time between tokens, one value for each token; several that came together share their gap evenly.

    Exported under its present name and the one of older dashboards.
    """

    def __init__(self, model_name: str) -> None:
        self._model_name = model_name
        self._lock = threading.Lock()
        self._counts: dict[str, list[int]] = {}  # by replica; one for each bucket, the last is without bound
        self._sums: dict[str, float] = {}

    def add(self, replica: int, gaps: Iterable[tuple[float, int]]) -> None:
        """Each gap in seconds, and for how many tokens it stands."""
        with self._lock:
            counts = self._counts.setdefault(str(replica), [0] * (len(NEXT_TOKEN_S) + 1))
            total_s = 0.0
            for gap_s, num_tokens in gaps:
                counts[bisect_left(NEXT_TOKEN_S, gap_s)] += num_tokens
                total_s += gap_s * num_tokens
            self._sums[str(replica)] = self._sums.get(str(replica), 0.0) + total_s

    def collect(self) -> Iterable[HistogramMetricFamily]:
        with self._lock:
            taken = {replica: (list(counts), self._sums[replica]) for replica, counts in self._counts.items()}
        for name in ("inter_token_latency_seconds", "time_per_output_token_seconds"):
            family = HistogramMetricFamily(_PREFIX + name, "time between two tokens", labels=_LABELS)
            for replica, (counts, total_s) in taken.items():
                bounds = [*map(str, NEXT_TOKEN_S), "+Inf"]
                running = [sum(counts[: index + 1]) for index in range(len(counts))]
                family.add_metric(
                    (self._model_name, "0", replica), list(zip(bounds, running, strict=True)), sum_value=total_s
                )
            yield family


def waiting_sequences(values: Mapping[str, float]) -> float:
    """In front of a stage: to be encoded, not yet started, or thrown out in the middle."""
    return sum(values.get(name, 0.0) for name in ("to_encode", "num_waiting", "num_preempted", "waiting"))


def running_sequences(values: Mapping[str, float]) -> float:
    """The Thinker's seats, the Talker's speakers, or Code2Wav's lent slots."""
    return next((values[name] for name in ("num_running", "speaking", "slots_lent") if name in values), 0.0)


def cache_usage(values: Mapping[str, float]) -> float:
    """Blocks of the Thinker, slots of the other stages."""
    for used, free in (("blocks_used", "blocks_free"), ("slots_lent", "slots_free")):
        if used in values and free in values:
            total = values[used] + values[free] + values.get("slots_retired", 0.0)
            return values[used] / total if total else 0.0
    return 0.0
