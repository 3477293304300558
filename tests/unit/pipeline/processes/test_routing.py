import random
from collections import Counter

import pytest

from antiphon.pipeline.processes.layout import WorkerPlan, join_workers
from antiphon.pipeline.processes.routing import NoReplicaError, Router

STAGES = ("thinker", "talker", "code2wav")
TALKERS = join_workers(
    STAGES,
    (
        WorkerPlan(name="w0", stages=("thinker", "code2wav"), device="cpu"),
        WorkerPlan(name="w1", stages=("talker",), device="cpu"),
        WorkerPlan(name="w2", stages=("talker",), device="cpu"),
    ),
)
PIPELINES = join_workers(STAGES, tuple(WorkerPlan(name=f"p{i}", stages=STAGES, device="cpu") for i in range(2)))
ALL = {"w0", "w1", "w2"}


def test_a_request_keeps_its_workers() -> None:
    router = Router(TALKERS)
    first = router.bind("a", 0, ALL)
    for other in "bcd":
        router.bind(other, 0, ALL)
    assert router.bind("a", 0, {"w0", "w2"}) is first


def test_replicas_take_turns() -> None:
    router = Router(TALKERS)
    assert [router.bind(str(n), 0, ALL).workers["talker"] for n in range(4)] == ["w1", "w2", "w1", "w2"]


def test_one_after_another_also_takes_turns() -> None:
    router = Router(TALKERS)
    chosen = []
    for number in range(4):
        chosen.append(router.bind(str(number), 0, ALL).workers["talker"])
        router.release(str(number))
    assert chosen == ["w1", "w2", "w1", "w2"]


def test_a_whole_pipeline_serves_all_stages_of_a_request() -> None:
    router = Router(PIPELINES)
    bindings = [router.bind(str(n), 0, {"p0", "p1"}) for n in range(4)]
    assert [set(binding.workers.values()) for binding in bindings] == [{"p0"}, {"p1"}, {"p0"}, {"p1"}]


def test_the_least_loaded_is_taken() -> None:
    router = Router(TALKERS)
    for number in range(4):
        router.bind(str(number), 0, ALL)
    router.release("0")  # of w1
    router.release("2")
    assert [router.bind(name, 0, ALL).workers["talker"] for name in "xy"] == ["w1", "w1"]


def test_a_stage_without_a_live_worker_is_refused_only_when_it_is_used() -> None:
    router = Router(TALKERS)
    router.bind("a", 0, {"w0"})
    assert router.use("a", "thinker", {"w0"}) == "w0"
    with pytest.raises(NoReplicaError, match=r"Stage-1 \(talker\) has no live replica"):
        router.use("a", "talker", {"w0"})


def test_a_worker_that_died_before_it_was_used_is_replaced_and_a_used_one_is_not() -> None:
    router = Router(TALKERS)
    assert router.bind("a", 0, ALL).workers["talker"] == "w1"
    assert router.use("a", "talker", {"w0", "w2"}) == "w2"
    assert router.use("a", "talker", {"w0", "w1"}) == "w2"
    assert router.loads() == {"w0": 1, "w1": 0, "w2": 1}


def test_only_used_workers_count_when_one_dies() -> None:
    router = Router(TALKERS)
    for name in ("text", "speech"):
        router.bind(name, 0, {"w0", "w1"})
        router.use(name, "thinker", ALL)
    router.use("speech", "talker", ALL)
    assert router.requests_on("w1") == ["speech"]
    assert router.requests_on("w0") == ["text", "speech"]


def test_loads_stay_true_over_random_operations() -> None:
    rng = random.Random(3)
    router = Router(TALKERS)
    alive: dict[str, set[str]] = {}
    for number in range(2000):
        if alive and rng.random() < 0.5:
            name = rng.choice(sorted(alive))
            assert router.release(name) is not None
            del alive[name]
        else:
            live = {worker for worker in ALL if rng.random() < 0.8}
            alive[str(number)] = set(router.bind(str(number), 0, live).workers.values())
            assert alive[str(number)] <= live
        wanted = Counter(worker for workers in alive.values() for worker in workers)
        assert {name: load for name, load in router.loads().items() if load} == dict(wanted)
    assert len(router) == len(alive)
