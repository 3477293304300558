"""How busy a run was at its peak: tokens of one second, requests of one moment."""

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from math import floor

from antiphon.bench.request_metrics import RequestMetrics
from antiphon.bench.timeline import RequestRecord


def peak_tokens_per_s(pairs: Sequence[tuple[RequestRecord, RequestMetrics]]) -> float:
    """Most output tokens in one second, each placed at start + TTFT + the times between tokens so far."""
    if not pairs:
        return 0.0
    origin_s = min(record.started_s for record, _ in pairs)
    buckets: Counter[int] = Counter()
    for record, metrics in pairs:
        if metrics.ttft_s is None:
            continue
        first_s = record.started_s - origin_s + metrics.ttft_s
        buckets.update(floor(at_s) for at_s in accumulate(metrics.itl_s, initial=first_s))
    return float(max(buckets.values(), default=0))


def peak_concurrency(records: Sequence[RequestRecord]) -> int:
    """Most requests under way at one moment; one that starts as another ends does not meet it."""
    changes = sorted(change for record in records for change in ((record.started_s, 1), (record.ended_s, -1)))
    return max(accumulate((step for _, step in changes), initial=0))
