from antiphon.pipeline.processes.control import CloseEdge, InletOpened, OpenInlet, OpenOutlet, OutletOpened
from antiphon.pipeline.processes.layout import WorkerPlan, join_workers
from antiphon.pipeline.processes.wiring import Wiring

LAYOUT = join_workers(
    ("thinker", "talker"),
    (WorkerPlan(name="w0", stages=("thinker",), device="cpu"), WorkerPlan(name="w1", stages=("talker",), device="cpu")),
)
EDGE = "w0.w1.talker"


def join(wiring: Wiring, generation: int) -> None:
    ((worker, order),) = wiring.inlet_opened(InletOpened(edge=EDGE, generation=generation, address="shm:x:1"))
    assert worker == "w0"
    assert order == OpenOutlet(edge=EDGE, generation=generation, address="shm:x:1")
    assert not wiring.is_wired("w0")
    wiring.outlet_opened(OutletOpened(edge=EDGE, generation=generation))


def test_an_edge_is_joined_when_both_ends_are_up() -> None:
    wiring = Wiring(LAYOUT)
    assert wiring.add("w0") == []
    assert wiring.is_wired("w0")  # it can already serve what needs no talker
    ((worker, order),) = wiring.add("w1")
    assert (worker, order) == ("w1", OpenInlet(edge=EDGE, generation=1, transport="shm", host="127.0.0.1"))
    assert not wiring.is_wired("w1")
    join(wiring, 1)
    assert wiring.is_wired("w1")


def test_when_one_end_dies_the_other_closes_and_the_next_life_has_a_new_number() -> None:
    wiring = Wiring(LAYOUT)
    wiring.add("w0")
    wiring.add("w1")
    join(wiring, 1)
    assert wiring.remove("w1") == [("w0", CloseEdge(edge=EDGE))]
    assert wiring.is_wired("w0")
    assert not wiring.is_current(EDGE, 1)
    ((_, order),) = wiring.add("w1")
    assert isinstance(order, OpenInlet)
    assert order.generation == 2


def test_answers_of_a_former_life_are_ignored() -> None:
    wiring = Wiring(LAYOUT)
    wiring.add("w0")
    wiring.add("w1")
    wiring.remove("w0")
    assert wiring.inlet_opened(InletOpened(edge=EDGE, generation=1, address="shm:x:1")) == []
    wiring.add("w0")
    wiring.outlet_opened(OutletOpened(edge=EDGE, generation=1))
    assert not wiring.is_wired("w1")
    join(wiring, 2)
    assert wiring.is_wired("w1")
