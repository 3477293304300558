"""Real processes with stages that compute nothing: starts, deaths, drains and what is left behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from queue import SimpleQueue

import numpy as np
import pytest

from antiphon.config.load import load_deploy
from antiphon.core.errors import CheckpointError, EngineError
from antiphon.core.handoff import Handoff
from antiphon.core.sampling import SamplingParams
from antiphon.pipeline.connectors.segment_names import SEGMENT_FOLDER, process_start_ticks
from antiphon.pipeline.messages import (
    Abort,
    FrontMessage,
    RequestFailed,
    SpeechSamples,
    TalkerRequest,
    TextEnd,
    ThinkerRequest,
    VoiceRequest,
)
from antiphon.pipeline.processes.control import ModelSpec
from antiphon.pipeline.processes.fleet import SupervisorSettings
from antiphon.pipeline.processes.layout import Layout, WorkerPlan, join_workers
from antiphon.pipeline.processes.routing import NoReplicaError
from antiphon.pipeline.processes.worker_state import RestartPolicy
from antiphon.pipeline.supervisor import Supervisor

STAGES = ("thinker", "talker", "code2wav")
COMMAND = (sys.executable, str(Path(__file__).with_name("echo_worker.py")))
SETTINGS = SupervisorSettings(restarts=RestartPolicy(first_pause_s=0.05), tick_s=0.1, input_wait_timeout_s=60)
ENDLESS, POISON = 0, 1  # first ids of prompts, see echo_worker


def plan(*groups: tuple[str, ...], transport: str = "shm") -> Layout:
    workers = tuple(WorkerPlan(name=f"w{n}", stages=stages, device="cpu") for n, stages in enumerate(groups))
    return join_workers(STAGES, workers, transport=transport)


class Front:
    """A supervisor and what its workers say, by request."""

    def __init__(self, layout: Layout, source: str = "echo") -> None:
        self.messages: SimpleQueue[FrontMessage] = SimpleQueue()
        spec = ModelSpec(source=source, deploy=load_deploy("cpu.yaml", platform="cpu"))
        self.supervisor = Supervisor(layout, spec, self.messages.put, settings=SETTINGS, command=COMMAND)
        self.ends: dict[str, RequestFailed | SpeechSamples | TextEnd] = {}
        self.samples: dict[str, list[float]] = {}

    def ask(self, name: str, first: int = 5, *, speaks: bool = True) -> None:
        send, params = self.supervisor.send, SamplingParams()
        if speaks:
            send(
                VoiceRequest(
                    request_id=name,
                    epoch=0,
                    voice_key="v",
                    voice_codes=np.zeros(3, np.int64),
                    voice_xvector=np.zeros(192, np.float32),
                    voice_mel=np.zeros((6, 80), np.float32),
                    seed=1,
                    deadline_s=0.0,
                )
            )
            send(TalkerRequest(request_id=name, epoch=0, handoff=Handoff.SPAN, sampling=params, seed=1, deadline_s=0.0))
        send(
            ThinkerRequest(
                request_id=name,
                epoch=0,
                ids=(first, 6, 7),
                images=(),
                audio=None,
                sampling=params,
                seed=1,
                handoff=Handoff.SPAN if speaks else None,
                deadline_s=0.0,
            )
        )

    def abort(self, name: str) -> None:
        self.supervisor.send(Abort(request_id=name, epoch=0))

    def hear(self, *names: str, timeout_s: float = 20) -> None:
        """Take messages until each of *names* has ended."""
        deadline = time.monotonic() + timeout_s
        while not self.ends.keys() >= set(names):
            message = self.messages.get(timeout=max(0.01, deadline - time.monotonic()))
            if isinstance(message, SpeechSamples):
                self.samples.setdefault(message.request_id, []).extend(message.samples.tolist())
            if isinstance(message, RequestFailed) or (isinstance(message, SpeechSamples) and message.is_last):
                assert message.request_id not in self.ends, "a request ended twice"
                self.ends[message.request_id] = message

    def pid(self, worker: str) -> int:
        pid = next(health.pid for health in self.supervisor.health().workers if health.name == worker)
        assert pid is not None
        return pid

    def wait(self, condition: Callable[[], bool], timeout_s: float = 20) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline, "not in time"
            time.sleep(0.005)

    def gauges(self, name: str) -> float:
        return sum(status.gauges.get(name, 0.0) for status in self.supervisor.status().values())

    def is_calm(self) -> bool:
        """No worker holds anything of any request."""
        return not any(self.gauges(f"{stage}.held") for stage in STAGES) and not self.supervisor.num_requests


def is_gone(pid: int) -> bool:
    return process_start_ticks(pid) is None


def segments(pids: Iterable[int]) -> list[str]:
    """What these processes have left in shared memory."""
    return [path.name for pid in pids for path in SEGMENT_FOLDER.glob(f"antiphon-{pid}-*")]


@pytest.fixture(params=["shm", "tcp"], scope="module")
def front(request: pytest.FixtureRequest) -> Iterator[Front]:
    """Thinker and Code2Wav in one worker, two Talkers in their own."""
    made = Front(plan(("thinker", "code2wav"), ("talker",), ("talker",), transport=request.param))
    made.supervisor.start(60)
    yield made
    pids = [made.pid(name) for name in ("w0", "w1", "w2")]
    made.supervisor.stop()
    assert all(is_gone(pid) for pid in pids)
    assert not segments(pids)


def test_requests_pass_through_all_workers(front: Front) -> None:
    names = [f"pass{number}" for number in range(50)]
    for number, name in enumerate(names):
        front.ask(name, 5 + number)
    front.hear(*names)
    assert [front.samples[name] for name in names] == [[5.0 + number, 6.0, 7.0] for number in range(50)]
    front.wait(front.is_calm)


def test_a_poisoned_request_fails_alone(front: Front) -> None:
    front.ask("good1")
    front.ask("poison", POISON)
    front.ask("good2")
    front.hear("good1", "poison", "good2")
    failure = front.ends["poison"]
    assert isinstance(failure, RequestFailed)
    assert (failure.stage, failure.message) == ("thinker", "this prompt is poisoned")
    assert front.samples["good1"] == front.samples["good2"] == [5.0, 6.0, 7.0]
    front.wait(front.is_calm)


def test_a_killed_talker_takes_only_its_own_requests_and_comes_back(front: Front) -> None:
    names = [f"kill{number}" for number in range(4)]
    for name in names:
        front.ask(name, ENDLESS)
    front.ask("text", ENDLESS, speaks=False)
    killed = front.pid("w1")
    os.kill(killed, signal.SIGKILL)
    front.wait(lambda: front.supervisor.num_requests == 3)
    assert is_gone(killed)
    health = front.supervisor.health()
    assert health.is_live
    assert health.stage("thinker").state == "ready"
    assert health.workers[1].last_error == "died (killed by SIGKILL)"

    for name in set(names) - front.ends.keys():
        front.abort(name)
    front.abort("text")
    front.wait(lambda: front.supervisor.health().stage("talker").state == "ready")
    for number in range(4):
        front.ask(f"again{number}")
    front.hear(*(f"again{number}" for number in range(4)))
    failed = [name for name, end in front.ends.items() if name in names and isinstance(end, RequestFailed)]
    assert len(failed) == 2
    assert all(front.ends[name].code == "worker_died" for name in failed)  # type: ignore[union-attr]
    front.wait(front.is_calm)


def test_two_hundred_aborts_leave_nothing(front: Front) -> None:
    pids = [front.pid(name) for name in ("w0", "w1", "w2")]
    front.wait(front.is_calm)

    def resources() -> list[tuple[int, int]]:
        """Threads and descriptors of each worker."""
        return [(len(os.listdir(f"/proc/{pid}/task")), len(os.listdir(f"/proc/{pid}/fd"))) for pid in pids]

    before, admitted = resources(), front.gauges("talker.admitted")
    for number in range(200):
        front.ask(f"abort{number}", ENDLESS if number % 2 else 5)
        if number % 3:
            front.abort(f"abort{number}")
    for number in range(200):
        front.abort(f"abort{number}")
    front.ask("after")
    front.hear("after")
    front.wait(front.is_calm)
    front.wait(lambda: front.gauges("talker.admitted") > admitted)
    assert resources() == before
    assert not segments(pids)


def test_a_terminated_worker_finishes_what_it_has_and_is_replaced(front: Front) -> None:
    names = ["term0", "term1"]
    for name in names:
        front.ask(name, ENDLESS)
    old = front.pid("w2")
    os.kill(old, signal.SIGTERM)
    front.wait(lambda: front.supervisor.health().workers[2].state == "draining")
    assert not is_gone(old)
    for number in range(2):
        front.ask(f"other{number}")  # both go to the other talker
    front.hear("other0", "other1")
    for name in names:
        front.abort(name)
    front.wait(lambda: is_gone(old))
    front.wait(lambda: front.supervisor.health().stage("talker").state == "ready")
    assert front.pid("w2") != old
    assert not front.ends.keys() & set(names)
    front.wait(front.is_calm)


def test_a_hung_talker_holds_up_only_its_own_requests(front: Front) -> None:
    hung = front.pid("w1")
    os.kill(hung, signal.SIGSTOP)
    try:
        for number in range(4):
            front.ask(f"hung{number}")
        front.wait(lambda: front.supervisor.num_requests == 2)
        front.ask("text", speaks=False)
        front.wait(lambda: front.supervisor.num_requests == 2)
    finally:
        os.kill(hung, signal.SIGCONT)
    front.hear(*(f"hung{number}" for number in range(4)))
    front.wait(front.is_calm)


def test_the_only_replica_down_is_said_at_once_and_text_goes_on() -> None:
    front = Front(plan(("thinker",), ("talker", "code2wav")))
    front.supervisor.start(60)
    try:
        os.kill(front.pid("w1"), signal.SIGKILL)
        front.wait(lambda: not front.supervisor.health().is_ready)
        front.wait(lambda: front.supervisor.health().workers[1].pid is None)
        with pytest.raises(NoReplicaError, match="has no live replica"):
            front.ask("speech")
        front.ask("text", speaks=False)
        front.wait(lambda: front.supervisor.num_requests == 0)
    finally:
        front.supervisor.stop()


def test_draining_refuses_the_new_and_waits_for_the_old() -> None:
    front = Front(plan(STAGES))
    front.supervisor.start(60)
    pid = front.pid("w0")
    front.ask("old", ENDLESS)
    assert not front.supervisor.drain(0.05)
    assert front.supervisor.health().is_draining
    assert not front.supervisor.health().is_ready
    with pytest.raises(EngineError, match="shutting down"):
        front.ask("new")
    front.abort("old")
    assert front.supervisor.drain(10)
    front.supervisor.stop()
    assert is_gone(pid)
    with pytest.raises(EngineError, match="shutting down"):
        front.ask("late")


def test_stopping_ends_what_is_under_way_once() -> None:
    front = Front(plan(STAGES))
    front.supervisor.start(60)
    front.ask("a", ENDLESS)
    front.supervisor.stop()
    front.hear("a", timeout_s=1)
    assert isinstance(front.ends["a"], RequestFailed)
    assert not front.supervisor.health().is_live


def test_a_start_that_fails_says_why_and_leaves_nothing() -> None:
    broken = Front(plan(STAGES), source="broken")
    with pytest.raises(CheckpointError, match="there is no such model"):
        broken.supervisor.start(60)
    slow = Front(plan(STAGES), source="slow")
    with pytest.raises(EngineError, match=r"did not become ready within 4 s: w0 \((building|starting)"):
        slow.supervisor.start(4)
    for front in (broken, slow):
        assert all(worker.pid is None for worker in front.supervisor.health().workers)


def test_workers_die_with_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    script = (
        "import sys, time\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from antiphon.config.load import load_deploy\n"
        "from antiphon.pipeline.processes.control import ModelSpec\n"
        "from antiphon.pipeline.processes.layout import WorkerPlan, join_workers\n"
        "from antiphon.pipeline.supervisor import Supervisor\n"
        "stages = ('thinker', 'talker', 'code2wav')\n"
        "layout = join_workers(stages, (WorkerPlan(name='a', stages=stages[:1], device='cpu'),\n"
        "    WorkerPlan(name='b', stages=stages[1:], device='cpu')))\n"
        "spec = ModelSpec(source='echo', deploy=load_deploy('cpu.yaml', platform='cpu'))\n"
        f"supervisor = Supervisor(layout, spec, print, command={COMMAND!r})\n"
        "supervisor.start(60)\n"
        "print(*[worker.pid for worker in supervisor.health().workers], flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pids = [int(word) for word in process.stdout.readline().split()]
        assert len(pids) == 2
        process.kill()
    deadline = time.monotonic() + 10
    while not all(is_gone(pid) for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert not segments(pids)
