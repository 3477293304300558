from typing import Any

import numpy as np
import pytest

from antiphon.core.handoff import Handoff
from antiphon.core.outputs import FinishReason
from antiphon.core.sampling import SamplingParams
from antiphon.engine.context_window import WindowConfig
from antiphon.engine.duplex_decision import DecisionSampling
from antiphon.pipeline.messages import (
    Abort,
    Command,
    RequestFailed,
    SessionCancel,
    SessionOpened,
    SessionStart,
    SessionTalk,
    SessionUnit,
    SessionVoice,
    SpeechEnd,
    SpeechSamples,
    TalkerRequest,
    TextEnd,
    ThinkerRequest,
    UnitRefused,
    UnitVoiced,
    UnitWritten,
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


def session_commands(name: str, *, speaks: bool = True) -> list[Command]:
    start = SessionStart(
        request_id=name,
        epoch=0,
        prefix=(1,),
        reference=(),
        suffix=(2,),
        window=WindowConfig(),
        speaks=speaks,
        seed=0,
        max_unit_chars=None,
    )
    if not speaks:
        return [start]
    request = voice(name)
    fields = {field: getattr(request, field) for field in request.__dataclass_fields__}
    return [SessionVoice(**fields), SessionTalk(request_id=name, epoch=0, sampling=SamplingParams(), seed=0), start]


def session_unit(name: str, epoch: int = 0) -> SessionUnit:
    return SessionUnit(
        request_id=name,
        epoch=epoch,
        number=0,
        mel=np.zeros((1, 1), np.float32),
        trim_front=0,
        trim_end=0,
        images=(),
        force_listen=False,
        sampling=DecisionSampling(),
        max_tokens=20,
        deadline_s=0.0,
    )


def session_written(name: str, epoch: int = 0, *, is_listen: bool) -> UnitWritten:
    return UnitWritten(
        request_id=name,
        epoch=epoch,
        number=0,
        ids=(),
        decided_ids=(),
        terminator=0,
        is_listen=is_listen,
        ends_turn=False,
        closed_turn=False,
        num_input_tokens=1,
        context_tokens=1,
        thinker_s=0.0,
    )


def session_voiced(name: str) -> UnitVoiced:
    return UnitVoiced(request_id=name, epoch=0, number=0, samples=np.zeros(0, np.float32), code2wav_s=0.0)


def test_the_ways_of_a_session_are_told_once() -> None:
    desk_ = desk()
    letters = [letter for command in session_commands("a") for letter in desk_.command(command, ALL, 0.0)]
    assert [(worker, type(message)) for worker, message in letters] == [
        ("w0", SessionVoice),
        ("w1", Route),
        ("w1", SessionTalk),
        ("w0", Route),
        ("w0", SessionStart),
    ]
    assert [type(message) for _, message in desk_.command(session_unit("a"), ALL, 0.0)] == [SessionUnit]
    (silent,) = desk_.command(session_commands("t", speaks=False)[0], ALL, 0.0)
    assert isinstance(silent[1], SessionStart)


def test_a_session_is_heard_in_every_epoch_and_never_ends_by_what_it_says() -> None:
    desk_ = desk()
    for command in session_commands("a"):
        desk_.command(command, ALL, 0.0)
    desk_.command(SessionCancel(request_id="a", epoch=3), ALL, 1.0)
    message = session_written("a", 3, is_listen=True)
    assert desk_.expects(message)
    assert desk_.hear(message, 2.0) == []
    assert desk_.hear(session_voiced("a"), 2.0) == []
    assert desk_.knows("a")
    assert {worker for worker, _ in desk_.command(Abort(request_id="a", epoch=3), ALL, 3.0)} == {"w0", "w1"}
    assert not desk_.expects(message)


@pytest.mark.parametrize(
    ("said", "is_settled"),
    [
        ([], False),
        ([session_written("a", is_listen=True)], True),
        ([session_written("a", is_listen=False)], False),
        ([session_written("a", is_listen=False), session_voiced("a")], True),
        ([UnitRefused(request_id="a", epoch=0, number=0, code="x", message="y")], True),
    ],
)
def test_only_a_session_that_owes_something_may_be_silent_for_too_long(said: list[Any], is_settled: bool) -> None:
    desk_ = desk(silence_s=5.0)
    for command in session_commands("a"):
        desk_.command(command, ALL, 0.0)
    desk_.hear(SessionOpened(request_id="a", epoch=0, num_tokens=1), 1.0)
    assert desk_.expire(1000.0).failures == ()
    desk_.command(session_unit("a"), ALL, 1000.0)
    for message in said:
        desk_.hear(message, 1001.0)
    assert desk_.expire(1004.0).failures == ()
    failures = desk_.expire(1010.0).failures
    assert len(failures) == (not is_settled)


def test_a_cancelled_unit_is_not_waited_for() -> None:
    desk_ = desk(silence_s=5.0)
    for command in session_commands("a", speaks=False):
        desk_.command(command, ALL, 0.0)
    desk_.command(session_unit("a"), ALL, 0.0)
    desk_.command(SessionCancel(request_id="a", epoch=1), ALL, 0.0)
    assert desk_.expire(100.0).failures == ()


def test_sessions_that_rest_hear_of_the_end_of_all_workers() -> None:
    desk_ = desk()
    for command in session_commands("a"):
        desk_.command(command, ALL, 0.0)
    desk_.hear(SessionOpened(request_id="a", epoch=0, num_tokens=1), 1.0)
    assert [failure.request_id for failure in desk_.end_all("gone")] == ["a"]
