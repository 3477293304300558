from dataclasses import dataclass

from antiphon.config.load import load_deploy
from antiphon.core.errors import CheckpointError, EngineError, StateError
from antiphon.core.handoff import Handoff
from antiphon.core.sampling import SamplingParams
from antiphon.engine.counters import Observation
from antiphon.pipeline.messages import RequestFailed, TalkerRequest, WorkerDied
from antiphon.pipeline.processes.control import (
    AskStatus,
    BuildStages,
    CloseEdge,
    EdgeBroken,
    Hello,
    InletOpened,
    ModelSpec,
    OpenInlet,
    OpenOutlet,
    OutletOpened,
    StagesReady,
    StartFailed,
    Status,
    Stop,
    Terminated,
)
from antiphon.pipeline.processes.fleet import Fleet, SupervisorSettings
from antiphon.pipeline.processes.layout import WorkerPlan, join_workers
from antiphon.pipeline.processes.roster import WorkerRecord
from antiphon.pipeline.processes.worker_state import RestartPolicy, WorkerState

LAYOUT = join_workers(
    ("thinker", "talker"),
    (WorkerPlan(name="w0", stages=("thinker",), device="cpu"), WorkerPlan(name="w1", stages=("talker",), device="cpu")),
)
SETTINGS = SupervisorSettings(
    restarts=RestartPolicy(first_pause_s=1.0, max_pause_s=4.0, max_deaths=4, healthy_s=100.0),
    tick_s=10.0,
    heartbeat_timeout_s=30.0,
)


@dataclass
class FakeProcess:
    identity: bytes
    pid: int
    is_killed: bool = False

    def fileno(self) -> int:
        return self.pid

    def is_alive(self) -> bool:
        return not self.is_killed

    def kill(self) -> None:
        self.is_killed = True

    def reap(self) -> str:
        return "killed by SIGKILL"


class Play:
    """A fleet with made-up processes, which answer as workers do unless told otherwise."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.told: list[tuple[str, object]] = []
        self.lines: list[str] = []
        self.unreachable: set[bytes] = set()
        self.num_spawned = 0
        self.has_no_room = False
        spec = ModelSpec(source="tiny", deploy=load_deploy("cpu.yaml", platform="cpu"))
        self.fleet = Fleet(LAYOUT, spec, SETTINGS, line=self.line, spawn=self.spawn, report=self.lines.append)

    def spawn(self, plan: WorkerPlan) -> FakeProcess:
        if self.has_no_room:
            raise OSError(12, "Cannot allocate memory")
        self.num_spawned += 1
        return FakeProcess(f"{plan.name}-{self.num_spawned}".encode(), self.num_spawned)

    def line(self, identity: bytes, message: object) -> None:
        if identity in self.unreachable:
            raise EngineError("a worker cannot be reached")
        self.told.append((identity.decode().split("-")[0], message))

    def record(self, name: str) -> WorkerRecord:
        return self.fleet.records[name]

    def process(self, name: str) -> FakeProcess:
        process = self.record(name).process
        assert isinstance(process, FakeProcess)
        return process

    def say(self, name: str, message: object) -> None:
        self.fleet.receive(self.record(name), message, self.now_s)

    def tick(self, to_s: float) -> None:
        self.now_s = to_s
        self.fleet.keep_time(to_s)

    def die(self, name: str) -> None:
        self.fleet.bury(self.record(name), self.now_s)

    def bring_up(self, name: str) -> None:
        self.say(name, Hello(pid=1))
        self.say(name, StagesReady(positions={}))
        self.answer()

    def answer(self) -> None:
        """Workers open what they are told to open."""
        while self.told:
            worker, order = self.told.pop(0)
            if isinstance(order, OpenInlet):
                self.say(worker, InletOpened(edge=order.edge, generation=order.generation, address="shm:x:1"))
            elif isinstance(order, OpenOutlet):
                self.say(worker, OutletOpened(edge=order.edge, generation=order.generation))

    def states(self) -> list[str]:
        return [record.state.value for record in self.fleet.records.values()]


def ready() -> Play:
    play = Play()
    play.tick(0.0)
    play.bring_up("w0")
    play.bring_up("w1")
    play.told.clear()
    assert play.fleet.has_been_ready
    return play


def use(play: Play, name: str) -> None:
    command = TalkerRequest(
        request_id=name, epoch=0, handoff=Handoff.SPAN, sampling=SamplingParams(), seed=0, deadline_s=0.0
    )
    play.fleet.desk.command(command, play.fleet.live(), play.now_s)


def test_workers_are_told_what_to_build_and_are_ready_when_joined() -> None:
    play = Play()
    play.tick(0.0)
    assert play.states() == ["starting", "starting"]
    play.say("w1", Hello(pid=1))
    worker, order = play.told.pop()
    assert worker == "w1"
    assert isinstance(order, BuildStages)
    assert order.stages == ("talker",)
    play.bring_up("w0")
    assert play.states() == ["ready", "starting"]
    play.say("w1", StagesReady(positions={"talker": 9}))
    assert play.states() == ["ready", "wiring"]
    play.answer()
    assert play.states() == ["ready", "ready"]
    assert play.record("w1").positions == {"talker": 9}


def test_a_dead_worker_ends_its_requests_and_comes_back_after_a_pause() -> None:
    play = ready()
    use(play, "a")
    play.die("w1")
    (failure,) = play.fleet.outputs
    assert isinstance(failure, RequestFailed)
    assert (failure.request_id, failure.code) == ("a", "worker_died")
    assert ("w0", CloseEdge(edge="w0.w1.talker")) in play.told
    assert play.states() == ["ready", "waiting"]
    play.tick(0.9)
    assert play.states() == ["ready", "waiting"]
    play.tick(1.0)
    assert play.states() == ["ready", "starting"]
    play.bring_up("w1")
    assert play.states() == ["ready", "ready"]
    assert play.record("w1").health().num_restarts == 1
    assert play.record("w1").last_error == "died (killed by SIGKILL)"


def test_pauses_grow_and_a_worker_that_keeps_dying_stays_down() -> None:
    play = ready()
    pauses = []
    while play.record("w1").state is not WorkerState.FAILED:
        play.die("w1")
        if play.record("w1").state is WorkerState.WAITING:
            pauses.append(play.record("w1").start_at_s - play.now_s)
            play.tick(play.record("w1").start_at_s)
    assert pauses == [1.0, 2.0, 4.0]
    play.tick(1000.0)
    assert play.states()[1] == "failed"


def test_a_worker_that_cannot_even_be_started_is_tried_again() -> None:
    play = ready()
    play.die("w1")
    play.has_no_room = True
    play.tick(1.0)
    assert play.record("w1").last_error == "could not start: Cannot allocate memory"
    play.has_no_room = False
    play.tick(3.0)
    play.bring_up("w1")
    assert play.states() == ["ready", "ready"]


def test_a_long_healthy_life_clears_the_record() -> None:
    play = ready()
    play.die("w1")
    play.tick(1.0)
    play.bring_up("w1")
    play.now_s = 200.0
    play.die("w1")
    assert play.record("w1").num_deaths == 1


def test_a_terminated_worker_finishes_gets_nothing_new_and_is_replaced_at_once() -> None:
    play = ready()
    use(play, "a")
    play.say("w1", Terminated())
    assert play.fleet.live() == {"w0"}
    play.tick(10.0)
    assert ("w1", Stop()) not in play.told
    play.fleet.desk.end_all("ended")
    play.tick(20.0)
    assert ("w1", Stop()) in play.told
    play.die("w1")
    play.tick(20.0)
    assert play.states() == ["ready", "starting"]
    assert play.record("w1").num_deaths == 0


def test_a_silent_worker_is_killed_and_a_talking_one_is_asked() -> None:
    play = ready()
    for now_s in (10.0, 20.0, 30.0):
        play.tick(now_s)
        play.say("w0", Status(gauges={}, counters={}))
    assert play.told.count(("w1", AskStatus())) == 3
    play.tick(40.0)
    assert play.process("w1").is_killed
    assert not play.process("w0").is_killed
    play.die("w1")
    assert play.record("w1").last_error == "was ended: silent for 30 s"


def test_a_worker_that_cannot_be_reached_or_understood_is_killed() -> None:
    play = ready()
    play.unreachable.add(play.process("w0").identity)
    play.fleet.tell("w0", AskStatus())
    assert play.process("w0").is_killed
    play.say("w1", StateError("received bytes that are no message"))
    assert play.process("w1").is_killed


def test_a_broken_edge_ends_its_consumer_but_an_old_one_nobody() -> None:
    play = ready()
    play.say("w0", EdgeBroken(edge="w0.w1.talker", generation=0, message="late"))
    assert not play.process("w1").is_killed
    play.say("w1", EdgeBroken(edge="w0.w1.talker", generation=1, message="damaged"))
    assert play.process("w1").is_killed
    play.die("w1")
    assert "its edge w0.w1.talker broke: damaged" in play.record("w1").last_error


def test_what_the_loop_died_of_is_told() -> None:
    play = ready()
    play.say("w1", WorkerDied(stages=("talker",), message="ValueError: x"))
    play.die("w1")
    assert play.record("w1").last_error == "was ended by an error: ValueError: x"


def test_a_start_that_cannot_succeed_is_an_error_of_its_kind() -> None:
    play = Play()
    play.tick(0.0)
    play.say("w0", StartFailed(code="bad_checkpoint", message="no such model"))
    play.die("w0")
    assert isinstance(play.fleet.start_error, CheckpointError)
    assert str(play.fleet.start_error) == "no such model"


def test_stopping_tells_each_once_and_the_dead_stay_dead() -> None:
    play = ready()
    play.die("w1")
    play.told.clear()
    play.fleet.stop()
    play.fleet.stop()
    assert play.told == [("w0", Stop())]
    play.die("w0")
    assert play.states() == ["stopped", "stopped"]


def test_counts_outlive_the_worker_and_notes_bear_its_name() -> None:
    play = ready()
    note = Observation("stage_in_queue_s", 0.5, "talker")
    play.say("w1", Status(gauges={"talker.requests": 1}, counters={"graph": 3}, observations=(note,)))
    assert list(play.fleet.observations) == [("w1", note)]
    play.die("w1")
    record = play.record("w1")
    assert (record.past_counters["graph"], record.status.counters, record.status.gauges) == (3, {}, {})
