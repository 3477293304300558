import numpy as np
import pytest

from antiphon.core.handoff import Handoff
from antiphon.core.outputs import FinishReason
from antiphon.core.sampling import SamplingParams
from antiphon.pipeline.messages import (
    Abort,
    RequestFailed,
    SpeechEnd,
    SpeechSamples,
    TalkerRequest,
    TextEnd,
    ThinkerRequest,
    VoiceRequest,
)
from antiphon.pipeline.processes.control import Release, Route
from antiphon.pipeline.processes.layout import WorkerPlan, join_workers
from antiphon.pipeline.processes.request_desk import Letter, RequestDesk
from antiphon.pipeline.processes.routing import NoReplicaError

LAYOUT = join_workers(
    ("thinker", "talker", "code2wav"),
    (
        WorkerPlan(name="w0", stages=("thinker", "code2wav"), device="cpu"),
        WorkerPlan(name="w1", stages=("talker",), device="cpu"),
        WorkerPlan(name="w2", stages=("talker",), device="cpu"),
    ),
)
ALL = {"w0", "w1", "w2"}


def thinker(name: str, *, speaks: bool = True) -> ThinkerRequest:
    return ThinkerRequest(
        request_id=name,
        epoch=0,
        ids=(5,),
        images=(),
        audio=None,
        sampling=SamplingParams(),
        seed=0,
        handoff=Handoff.SPAN if speaks else None,
        deadline_s=0.0,
    )


def talker(name: str) -> TalkerRequest:
    return TalkerRequest(
        request_id=name, epoch=0, handoff=Handoff.SPAN, sampling=SamplingParams(), seed=0, deadline_s=0.0
    )


def voice(name: str) -> VoiceRequest:
    return VoiceRequest(
        request_id=name,
        epoch=0,
        voice_key="v",
        voice_codes=np.zeros(1, np.int64),
        voice_xvector=np.zeros(1, np.float32),
        voice_mel=np.zeros((2, 1), np.float32),
        seed=0,
        deadline_s=0.0,
    )


def begin(desk: RequestDesk, name: str, now_s: float = 0.0) -> list[Letter]:
    commands = (voice(name), talker(name), thinker(name))
    return [letter for command in commands for letter in desk.command(command, ALL, now_s)]


def desk(silence_s: float = 600.0) -> RequestDesk:
    return RequestDesk(LAYOUT, silence_s=silence_s)


def test_a_spoken_request_goes_to_its_workers_with_the_way_between_them() -> None:
    letters = begin(desk(), "a")
    assert [(worker, type(message)) for worker, message in letters] == [
        ("w0", VoiceRequest),
        ("w1", Route),
        ("w1", TalkerRequest),
        ("w0", Route),
        ("w0", ThinkerRequest),
    ]
    assert letters[1][1] == Route(request_id="a", stage="code2wav", edge="w1.w0.code2wav")
    assert letters[3][1] == Route(request_id="a", stage="talker", edge="w0.w1.talker")


def test_a_text_request_touches_the_thinker_only() -> None:
    made = desk()
    assert made.command(thinker("a", speaks=False), ALL, 0.0) == [("w0", thinker("a", speaks=False))]
    end = TextEnd(request_id="a", epoch=0, reason=FinishReason.STOP, stop_id=1, num_cached_tokens=0)
    assert made.hear(end, 1.0) == [("w0", Release(request_id="a"))]
    assert made.num_requests == 0


def test_a_spoken_request_is_over_when_all_its_stages_have_ended() -> None:
    made = desk()
    begin(made, "a")
    end = TextEnd(request_id="a", epoch=0, reason=FinishReason.STOP, stop_id=1, num_cached_tokens=0)
    samples = SpeechSamples(request_id="a", epoch=0, samples=np.zeros(1, np.float32), is_last=True)
    assert made.hear(end, 1.0) == []
    assert made.hear(samples, 1.0) == []
    assert made.hear(SpeechEnd(request_id="a", epoch=0, reason=None), 1.0) == [
        ("w0", Release(request_id="a")),
        ("w1", Release(request_id="a")),
    ]


def test_an_abort_reaches_every_worker_once() -> None:
    made = desk()
    begin(made, "a")
    abort = Abort(request_id="a", epoch=0)
    assert made.command(abort, ALL, 0.0) == [("w0", abort), ("w1", abort)]
    assert made.command(abort, ALL, 0.0) == []


def test_a_failure_in_one_worker_ends_the_request_in_the_others() -> None:
    made = desk()
    begin(made, "a")
    failed = RequestFailed(request_id="a", epoch=0, stage="talker", code="x", message="y")
    abort = Abort(request_id="a", epoch=0)
    assert made.hear(failed, 0.0) == [("w0", abort), ("w1", abort)]
    assert made.num_requests == 0


def test_a_dead_worker_ends_exactly_what_was_on_it() -> None:
    made = desk()
    begin(made, "a")  # w1
    begin(made, "b")  # w2
    made.command(thinker("text", speaks=False), ALL, 0.0)
    endings = made.bury("w1", "died (killed by SIGKILL)")
    assert [(failure.request_id, failure.stage, failure.code) for failure in endings.failures] == [
        ("a", "talker", "worker_died")
    ]
    assert "worker w1 (talker) died (killed by SIGKILL)" in endings.failures[0].message
    assert endings.letters == (("w0", Abort(request_id="a", epoch=0)),)
    assert made.knows("b")
    assert made.knows("text")


def test_a_stage_without_replica_is_refused_and_leaves_nothing_behind() -> None:
    made = desk()
    with pytest.raises(NoReplicaError):
        made.command(talker("a"), {"w0"}, 0.0)
    assert made.num_requests == 0


def test_a_request_that_is_silent_for_too_long_ends() -> None:
    made = desk(silence_s=10.0)
    begin(made, "a", now_s=0.0)
    begin(made, "b", now_s=5.0)
    assert made.expire(10.0).failures == ()
    (failure,) = made.expire(10.1).failures
    assert (failure.request_id, failure.stage) == ("a", "thinker")
    assert failure.message == "Timed out waiting for connector input after 10 s"
    assert made.knows("b")


def test_when_everything_ends_every_request_hears_of_it() -> None:
    made = desk()
    begin(made, "a")
    begin(made, "b")
    assert {failure.request_id for failure in made.end_all("stopped")} == {"a", "b"}
    assert made.num_requests == 0
