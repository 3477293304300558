import threading
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch

from antiphon.core.errors import CapacityError, MediaError, StateError
from antiphon.core.handoff import Handoff
from antiphon.core.sampling import SamplingParams
from antiphon.pipeline.device_loop import DeviceLoop
from antiphon.pipeline.messages import (
    Abort,
    CodecChunk,
    FrontMessage,
    RequestFailed,
    SpeechSamples,
    SpokenPiece,
    StageOutput,
    StagePiece,
    StageRequest,
    TalkerRequest,
    WorkerDied,
)
from antiphon.pipeline.stage import DRAW_CODES, FIRST_CHUNK, NEXT_CHUNK, Urgency


class FakeStage:
    """Writes down what it is told; says and does what the test puts in."""

    def __init__(self, name: str, log: list[str], urgency: Urgency = (NEXT_CHUNK, 0.0)) -> None:
        self.name, self.log, self.rank = name, log, urgency
        self.to_say: list[StageOutput] = []
        self.launches = 0
        self.is_busy = False
        self.failure: Exception | None = None
        self.crash: Exception | None = None

    def admit(self, request: StageRequest) -> None:
        self._do(f"admit {request.request_id}")

    def extend(self, piece: StagePiece) -> None:
        self._do(f"extend {piece.request_id}")

    def close_input(self, request_id: str) -> None:
        self._do(f"close {request_id}")

    def abort(self, request_id: str) -> None:
        self.log.append(f"{self.name}: abort {request_id}")

    def urgency(self) -> Urgency:
        return self.rank

    def launch(self) -> bool:
        if self.crash is not None:
            raise self.crash
        self.launches -= 1
        if self.launches >= 0:
            self.log.append(f"{self.name}: launch")
        return self.launches >= 0

    def collect(self) -> Sequence[StageOutput]:
        outputs, self.to_say = self.to_say, []
        return outputs

    def warm_up(self, report: Callable[[str], None]) -> None:
        report(self.name)

    def snapshot(self) -> dict[str, float]:
        return {"requests": 3}

    def _do(self, what: str) -> None:
        self.log.append(f"{self.name}: {what}")
        if self.failure is not None:
            raise self.failure


class World:
    """A loop with a fake Talker and a fake Code2Wav."""

    def __init__(self, *, max_commands: int = 9) -> None:
        self.log: list[str] = []
        self.said: list[FrontMessage] = []
        self.sent: list[StagePiece] = []
        self.talker = FakeStage("talker", self.log, (DRAW_CODES, 0.0))
        self.code2wav = FakeStage("code2wav", self.log)
        self.loop = DeviceLoop([self.talker, self.code2wav], self.said.append, max_commands=max_commands)


@pytest.fixture
def world() -> World:
    return World()


def request(name: str) -> TalkerRequest:
    sampling = SamplingParams(max_tokens=5)
    return TalkerRequest(request_id=name, epoch=0, handoff=Handoff.SPAN, sampling=sampling, seed=1, deadline_s=0.0)


def chunk(name: str) -> CodecChunk:
    return CodecChunk(request_id=name, epoch=0, codes=(1,), is_last=False)


def piece(name: str) -> SpokenPiece:
    return SpokenPiece(request_id=name, epoch=0, ids=(1,), rows=torch.zeros(1, 2), is_last=True)


def samples(name: str) -> SpeechSamples:
    return SpeechSamples(request_id=name, epoch=0, samples=np.zeros(1, np.float32), is_last=False)


def test_commands_are_taken_in_order_by_the_stage_they_are_for(world: World) -> None:
    world.loop.send(request("a"))
    world.loop.send(piece("a"))
    world.loop.send(chunk("a"))
    world.loop.send(Abort(request_id="a", epoch=0))
    assert world.loop.step()
    expected = ["talker: admit a", "talker: extend a", "code2wav: extend a", "talker: abort a", "code2wav: abort a"]
    assert world.log == expected
    assert not world.loop.step()


def test_what_a_stage_says_goes_to_the_next_stage_or_to_the_front(world: World) -> None:
    out = samples("a")
    world.talker.to_say = [chunk("a")]
    world.code2wav.to_say = [out]
    assert world.loop.step()
    assert world.log == ["code2wav: extend a"]
    assert world.said == [out]


def test_pieces_for_another_worker_leave_by_their_outlet(world: World) -> None:
    loop = DeviceLoop([world.talker], world.said.append, outlets={"code2wav": world.sent.append})
    world.talker.to_say = [chunk("a")]
    loop.step()
    assert world.sent == [chunk("a")]


def test_the_most_urgent_stage_launches_first(world: World) -> None:
    world.talker.launches = world.code2wav.launches = 2
    world.loop.step()
    world.code2wav.rank = (FIRST_CHUNK, 0.0)
    world.loop.step()
    order = ["talker", "code2wav", "code2wav", "talker"]
    assert world.log == [f"{name}: launch" for name in order]


@pytest.mark.parametrize(
    ("failure", "code", "message"),
    [(MediaError("too long"), "bad_media", "too long"), (KeyError("x"), "internal", "KeyError: 'x'")],
)
def test_a_failing_request_ends_alone(world: World, failure: Exception, code: str, message: str) -> None:
    world.talker.failure = failure
    world.loop.send(request("a"))
    world.loop.step()
    assert world.said == [RequestFailed(request_id="a", epoch=0, stage="talker", code=code, message=message)]
    assert world.log[1:] == ["talker: abort a", "code2wav: abort a"]
    world.talker.failure = None
    world.loop.send(request("b"))
    assert world.loop.step()
    assert world.log[-1] == "talker: admit b"


def test_a_request_that_a_stage_gives_up_is_forgotten_by_all(world: World) -> None:
    failed = RequestFailed(request_id="a", epoch=0, stage="code2wav", code="engine_error", message="no")
    world.code2wav.to_say = [failed]
    world.loop.step()
    assert world.said == [failed]
    assert world.log == ["talker: abort a", "code2wav: abort a"]


def test_a_request_for_a_stage_that_is_elsewhere_fails(world: World) -> None:
    loop = DeviceLoop([world.code2wav], world.said.append)
    loop.send(request("a"))
    loop.step()
    (failed,) = world.said
    assert isinstance(failed, RequestFailed)
    assert "no talker stage" in failed.message


def test_a_full_queue_refuses_all_but_aborts() -> None:
    world = World(max_commands=1)
    world.loop.send(request("a"))
    with pytest.raises(CapacityError, match="1 commands wait"):
        world.loop.send(request("b"))
    world.loop.send(Abort(request_id="a", epoch=0))


def test_a_fatal_error_is_told_and_ends_the_loop(world: World) -> None:
    world.talker.crash = RuntimeError("device lost")
    world.loop.run()
    reason = "RuntimeError: device lost"
    assert world.said == [WorkerDied(stages=("talker", "code2wav"), message=reason)]
    assert world.loop.death == reason
    with pytest.raises(StateError, match="device lost"):
        world.loop.send(request("a"))


def test_gauges_carry_their_stage(world: World) -> None:
    assert world.loop.snapshot() == {"commands": 0, "talker.requests": 3, "code2wav.requests": 3}
    lines: list[str] = []
    world.loop.warm_up(lines.append)
    assert lines == ["talker", "code2wav"]


@pytest.mark.parametrize("is_busy", [False, True])
def test_a_thread_wakes_for_a_command_and_ends_when_stopped(world: World, is_busy: bool) -> None:
    world.talker.is_busy = is_busy
    others = set(threading.enumerate())
    world.loop.start()
    done = threading.Event()
    world.loop.call(done.set)
    assert done.wait(5)
    assert world.loop.snapshot()["talker.requests"] == 3
    world.loop.stop(5)
    assert set(threading.enumerate()) <= others
    with pytest.raises(StateError, match="stopped"):
        world.loop.send(request("a"))
