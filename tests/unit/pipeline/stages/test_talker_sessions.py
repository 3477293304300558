"""Units of a session through the Talker's queue: order, turns, cuts, failures. The engine is a fake."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from antiphon.core.errors import CapacityError
from antiphon.core.sampling import DEFAULT_STAGE_PARAMS
from antiphon.engine.device_stream import DeviceStream
from antiphon.engine.talker_job import TalkerCondition, TalkerJob, TalkerMode, TalkerOutput
from antiphon.pipeline.messages import (
    RequestFailed,
    SessionTalk,
    SpokenUnit,
    StageOutput,
    UnitCodes,
    UnitDrawn,
    UnitRefused,
)
from antiphon.pipeline.stages.talker_sessions import TalkerSessions

CODES = tuple(range(25))


class FakeEngine:
    def __init__(self) -> None:
        self.jobs: list[TalkerJob] = []
        self.conditions: list[TalkerCondition] = []
        self.aborted: list[str] = []
        self.refusal: Exception | None = None
        self.is_idle = True

    def warm_up(self, report: Callable[[str], None]) -> None:
        report("talker")

    def admit(self, job: TalkerJob) -> None:
        self.jobs.append(job)

    def extend(self, seq_id: str, condition: TalkerCondition) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.conditions.append(condition)

    def abort(self, seq_id: str) -> None:
        self.aborted.append(seq_id)

    def launch(self) -> bool:
        return False

    def collect(self) -> list[TalkerOutput]:
        return []

    def snapshot(self) -> dict[str, float]:
        return {}


class World:
    def __init__(self) -> None:
        self.engine = FakeEngine()
        self.now_s = 0.0
        self.sessions = TalkerSessions(
            self.engine, stream=DeviceStream(torch.device("cpu")), always_flushes=True, clock=lambda: self.now_s
        )
        self.sessions.start(SessionTalk(request_id="a", epoch=0, sampling=DEFAULT_STAGE_PARAMS[1], seed=7))

    def unit(self, number: int, epoch: int = 0, **fields: Any) -> list[StageOutput]:
        rows = torch.zeros(2, 4)
        fields = {"ids": (1, 2), "rows": rows, "ends_turn": False, **fields}
        self.sessions.extend(SpokenUnit(request_id="a", epoch=epoch, number=number, **fields))
        return self.taken()

    def reset(self, *, ends_turn: bool) -> list[StageOutput]:
        return self.unit(-1, ids=(), rows=torch.zeros(0, 4), ends_turn=ends_turn, resets_voice=True)

    def draw(self, codes: tuple[int, ...] = CODES, *, job: int | None = None, **fields: Any) -> list[StageOutput]:
        epoch = self.engine.jobs[-1].epoch if job is None else job
        fields.setdefault("condition_ended", "finish_reason" not in fields)
        self.sessions.take(TalkerOutput(seq_id="a", epoch=epoch, codes=codes, **fields))
        return self.taken()

    def taken(self) -> list[StageOutput]:
        outputs, self.sessions.outputs = self.sessions.outputs, []
        return outputs


def test_a_session_is_admitted_with_its_first_words_and_keeps_its_job() -> None:
    world = World()
    assert world.engine.jobs == []
    world.unit(0)
    world.draw()
    world.unit(1)
    (job,) = world.engine.jobs
    assert (job.mode, job.seed) == (TalkerMode.UNIT, 7)
    assert [condition.ends_turn for condition in world.engine.conditions] == [False, False]


def test_units_are_spoken_one_after_another() -> None:
    world = World()
    world.unit(0)
    world.unit(1)
    assert len(world.engine.conditions) == 1
    world.now_s = 0.5
    drawn, codes = world.draw()
    assert isinstance(drawn, UnitDrawn)
    assert (drawn.number, drawn.codes, drawn.talker_s) == (0, CODES, 0.5)
    assert isinstance(codes, UnitCodes)
    assert [len(chunk) for chunk in codes.chunks] == [28]
    assert len(world.engine.conditions) == 2


def test_codes_that_come_in_pieces_are_one_units() -> None:
    world = World()
    world.unit(0)
    assert world.draw(CODES[:10], condition_ended=False, has_rolled_over=True) == []
    drawn = world.draw(CODES[10:])[0]
    assert isinstance(drawn, UnitDrawn)
    assert (drawn.codes, drawn.has_rolled_over) == (CODES, True)


def test_the_end_of_a_turn_voices_all_that_waits() -> None:
    world = World()
    world.unit(0, ends_turn=True)
    codes = world.draw()[1]
    assert isinstance(codes, UnitCodes)
    assert ([len(chunk) for chunk in codes.chunks], codes.ends_turn) == ([28, 3], True)


def test_a_forced_listen_resets_the_voice_behind_what_waits_and_the_talker_goes_on() -> None:
    world = World()
    world.unit(0)
    assert world.reset(ends_turn=False) == []
    reset = world.draw()[2]
    assert isinstance(reset, UnitCodes)
    assert (reset.chunks, reset.ends_turn, reset.resets_voice) == ((), False, True)
    assert world.engine.aborted == []
    world.unit(1)
    assert len(world.engine.jobs) == 1


def test_a_cut_off_drops_what_is_spoken_and_what_waits_and_the_next_turn_has_a_job_of_its_own() -> None:
    world = World()
    world.unit(0)
    world.unit(1)
    (reset,) = world.reset(ends_turn=True)
    assert isinstance(reset, UnitCodes)
    assert (reset.ends_turn, reset.resets_voice) == (True, True)
    assert world.engine.aborted == ["a"]
    world.unit(0, epoch=1)
    assert [job.epoch for job in world.engine.jobs] == [0, 1]
    assert world.engine.jobs[1].seed != world.engine.jobs[0].seed
    assert world.draw(job=0) == []  # of what was cut off
    assert world.draw((), job=0, finish_reason="abort") == []
    drawn = world.draw()[0]
    assert isinstance(drawn, UnitDrawn)
    assert (drawn.epoch, drawn.number) == (1, 0)


def test_a_cut_off_between_turns_costs_no_job() -> None:
    world = World()
    world.reset(ends_turn=True)
    world.unit(0, ends_turn=True)
    world.draw()
    world.reset(ends_turn=True)
    assert world.engine.aborted == []
    world.unit(1)
    assert len(world.engine.jobs) == 1


def test_a_unit_that_fits_no_context_fails_alone() -> None:
    world = World()
    world.unit(0)
    world.unit(1)
    refused, reset = world.draw((), finish_reason="context")
    assert isinstance(refused, UnitRefused)
    assert (refused.number, refused.code) == (0, "talker_context_exceeded")
    assert isinstance(reset, UnitCodes)
    assert reset.resets_voice
    assert len(world.engine.jobs) == 2  # of the unit behind it
    assert isinstance(world.draw()[0], UnitDrawn)


@pytest.mark.parametrize("reason", ["error", "stop"])
def test_any_other_end_of_the_job_ends_the_session(reason: str) -> None:
    world = World()
    world.unit(0)
    (failed,) = world.draw((), finish_reason=reason)
    assert isinstance(failed, RequestFailed)
    assert "a" not in world.sessions
    assert world.unit(1) == []


def test_a_refusal_of_the_engine_ends_the_session_with_its_code() -> None:
    world = World()
    world.engine.refusal = CapacityError("full")
    (failed,) = world.unit(0)
    assert isinstance(failed, RequestFailed)
    assert failed.code == CapacityError.code
    assert world.engine.aborted == ["a"]


def test_an_ended_session_is_forgotten() -> None:
    world = World()
    world.unit(0)
    assert world.sessions.abort("a")
    assert not world.sessions.abort("a")
    assert world.engine.aborted == ["a"]
    assert world.draw() == []
    assert world.sessions.snapshot() == {"sessions": 0, "session_units_waiting": 0}
