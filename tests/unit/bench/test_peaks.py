"""The busiest second and moment."""

from antiphon.bench.peaks import peak_concurrency, peak_tokens_per_s
from antiphon.bench.request_metrics import measure
from antiphon.bench.timeline import Answer, RequestRecord, TextArrival


def record(started_s: float, e2e_s: float, *token_times_s: float) -> RequestRecord:
    texts = tuple(TextArrival(at_s=at_s, num_tokens=1, text="x") for at_s in token_times_s)
    return RequestRecord(
        started_s=started_s, due_s=started_s, prompt_len_tokens=1, answer=Answer(e2e_s=e2e_s, texts=texts)
    )


def test_tokens_are_counted_in_seconds_from_the_first_start() -> None:
    records = [record(10.0, 2.0, 0.5, 0.75, 1.5), record(10.5, 2.0, 0.25, 1.0)]
    assert peak_tokens_per_s([(item, measure(item)) for item in records]) == 3.0  # at 0.5, 0.75 and 0.75


def test_requests_meet_where_their_times_overlap() -> None:
    assert peak_concurrency([record(5.0, 0.5), record(5.25, 2.0), record(6.5, 0.1), record(7.9, 0.2)]) == 2


def test_a_request_that_starts_as_another_ends_is_alone() -> None:
    assert peak_concurrency([record(1.0, 0.5), record(1.5, 0.5), record(2.0, 0.5)]) == 1


def test_nothing_has_no_peak() -> None:
    assert peak_tokens_per_s([]) == 0.0
    assert peak_concurrency([]) == 0
