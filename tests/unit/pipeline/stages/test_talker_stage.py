from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from antiphon.core.errors import PromptError
from antiphon.core.handoff import Handoff
from antiphon.core.outputs import FinishReason
from antiphon.core.sampling import SamplingParams
from antiphon.engine.device_stream import DeviceStream
from antiphon.engine.talker_job import TalkerCondition, TalkerJob, TalkerMode, TalkerOutput
from antiphon.pipeline.messages import (
    CodecChunk,
    DrawnCodes,
    RequestFailed,
    SpeechEnd,
    SpokenPiece,
    StageOutput,
    TalkerRequest,
)
from antiphon.pipeline.stages.talker import TalkerStage


class FakeEngine:
    """Says what the test puts in; keeps what it was told."""

    def __init__(self) -> None:
        self.jobs: list[TalkerJob] = []
        self.conditions: list[TalkerCondition] = []
        self.aborted: list[str] = []
        self.to_say: list[TalkerOutput] = []
        self.failure: Exception | None = None
        self.is_idle = True

    def warm_up(self, report: Callable[[str], None]) -> None:
        report("talker")

    def admit(self, job: TalkerJob) -> None:
        self.jobs.append(job)

    def extend(self, seq_id: str, condition: TalkerCondition) -> None:
        if self.failure is not None:
            raise self.failure
        self.conditions.append(condition)

    def abort(self, seq_id: str) -> None:
        self.aborted.append(seq_id)

    def launch(self) -> bool:
        return False

    def collect(self) -> list[TalkerOutput]:
        outputs, self.to_say = self.to_say, []
        return outputs

    def snapshot(self) -> dict[str, float]:
        return {"slots_lent": 0}


class World:
    def __init__(self) -> None:
        self.engine = FakeEngine()
        self.stage = TalkerStage(self.engine, stream=DeviceStream(torch.device("cpu")))

    def admit(self, handoff: Handoff, **fields: object) -> None:
        sampling = SamplingParams(temperature=0.5, max_tokens=60, min_tokens=4)
        request = TalkerRequest(request_id="a", epoch=0, handoff=handoff, sampling=sampling, seed=3, deadline_s=2.0)
        self.stage.admit(replace(request, **fields))  # type: ignore[arg-type]

    def say(self, count: int, *, is_last: bool) -> None:
        self.stage.extend(
            SpokenPiece(request_id="a", epoch=0, ids=tuple(range(count)), rows=torch.zeros(count, 2), is_last=is_last)
        )

    def draw(self, count: int, **fields: object) -> list[StageOutput]:
        self.engine.to_say = [TalkerOutput(seq_id="a", epoch=0, codes=tuple(range(count)), **fields)]  # type: ignore[arg-type]
        return list(self.stage.collect())


@pytest.fixture
def world() -> World:
    return World()


def test_a_span_is_one_condition_with_one_draw_more_than_codes(world: World) -> None:
    world.admit(Handoff.SPAN)
    assert world.engine.jobs == []
    world.say(7, is_last=True)
    (job,), (condition,) = world.engine.jobs, world.engine.conditions
    assert (job.mode, job.min_codes, job.max_codes, job.seed, job.is_greedy) == (TalkerMode.SPAN, 4, 60, 3, False)
    assert (condition.min_codes, condition.max_draws) == (4, 61)
    assert (condition.has_text_eos, condition.is_last, len(condition.hidden)) == (True, True, 7)


def test_greedy_is_a_flag_and_no_temperature(world: World) -> None:
    world.admit(Handoff.STREAM, sampling=SamplingParams(temperature=0.0, max_tokens=9))
    world.say(1, is_last=True)
    assert (world.engine.jobs[0].is_greedy, world.engine.jobs[0].sampling.temperature) == (True, 1.0)


def test_codes_leave_in_vocoder_chunks_and_the_end_is_told(world: World) -> None:
    world.admit(Handoff.SPAN)
    world.say(7, is_last=True)
    drawn, chunk = world.draw(28)
    assert drawn == DrawnCodes(request_id="a", epoch=0, codes=tuple(range(28)))
    assert isinstance(chunk, CodecChunk)
    assert (len(chunk.codes), chunk.is_last) == (28, False)
    last, end = world.draw(0, condition_ended=True, finish_reason="stop")
    assert isinstance(last, CodecChunk)
    assert last.is_last
    assert end == SpeechEnd(request_id="a", epoch=0, reason=FinishReason.STOP)
    assert world.stage.snapshot()["requests"] == 0
    assert world.engine.aborted == []


def test_the_next_piece_waits_for_the_end_of_the_one_before(world: World) -> None:
    world.admit(Handoff.STREAM)
    world.say(10, is_last=False)
    world.say(3, is_last=True)
    assert [condition.is_last for condition in world.engine.conditions] == [False]
    world.draw(20, condition_ended=True)
    assert [condition.is_last for condition in world.engine.conditions] == [False, True]
    assert [condition.max_draws for condition in world.engine.conditions] == [60, 40]


def test_a_limit_ends_the_turn_while_the_engine_expects_more(world: World) -> None:
    world.admit(Handoff.STREAM)
    world.say(10, is_last=False)
    outputs = world.draw(60, condition_ended=True)
    assert outputs[-1] == SpeechEnd(request_id="a", epoch=0, reason=FinishReason.LENGTH)
    assert world.engine.aborted == ["a"]
    world.say(3, is_last=True)
    assert len(world.engine.conditions) == 1


@pytest.mark.parametrize("handoff", list(Handoff))
def test_nothing_to_speak_never_reaches_the_engine(world: World, handoff: Handoff) -> None:
    world.admit(handoff)
    world.say(0, is_last=True)
    assert world.stage.is_busy
    assert world.stage.collect() == [
        SpeechEnd(request_id="a", epoch=0, reason=None),
        CodecChunk(request_id="a", epoch=0, codes=(), is_last=True),
    ]
    assert (world.engine.jobs, world.engine.aborted) == ([], [])


def test_broken_values_and_refused_conditions_end_the_request(world: World) -> None:
    world.admit(Handoff.SPAN)
    world.say(3, is_last=True)
    (failed,) = world.draw(0, finish_reason="error")
    assert isinstance(failed, RequestFailed)
    assert "not finite" in failed.message
    world.admit(Handoff.STREAM)
    world.say(10, is_last=False)
    world.say(3, is_last=True)
    world.engine.failure = PromptError("odd rows")
    *_, failed = world.draw(1, condition_ended=True)
    assert isinstance(failed, RequestFailed)
    assert failed.message == "odd rows"
    assert world.stage.snapshot()["requests"] == 0


def test_a_context_that_ends_in_the_middle_of_a_turn_fails_the_request(world: World) -> None:
    world.admit(Handoff.STREAM)
    world.say(10, is_last=False)
    failed = world.draw(1, condition_ended=True, finish_reason="context")[-1]
    assert isinstance(failed, RequestFailed)
    assert "context" in failed.message


def test_an_abort_before_and_after_the_first_piece(world: World) -> None:
    world.admit(Handoff.SPAN)
    world.stage.abort("a")
    world.say(3, is_last=True)
    assert (world.engine.jobs, world.engine.aborted) == ([], [])
    world.admit(Handoff.SPAN)
    world.say(3, is_last=True)
    world.stage.abort("a")
    assert world.engine.aborted == ["a"]
    assert world.draw(5) == []
