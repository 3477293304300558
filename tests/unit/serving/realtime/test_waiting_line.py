import asyncio

import pytest

from antiphon.realtime.admission import Admission
from antiphon.realtime.limits import Limits
from antiphon.serving.realtime.waiting_line import WaitingLine
from antiphon.wire.realtime.errors import RealtimeError


def line(**limits: int) -> tuple[WaitingLine, Admission]:
    admission = Admission(Limits(max_sessions=1, **limits))
    admission.take("somebody", 0.0)
    return WaitingLine(admission), admission


def test_slots_go_out_in_the_order_of_coming():
    waiting, admission = line()
    waiting.join("first")
    waiting.join("second")
    assert not waiting.try_take("first", 1.0)
    admission.give_back("somebody", 2.0)
    assert not waiting.try_take("second", 2.0)
    assert waiting.try_take("first", 2.0)
    assert waiting.place("second").position == 1


def test_everybody_looks_again_when_somebody_leaves():
    waiting, admission = line()
    waiting.join("first")
    bell = waiting.join("second")
    waiting.leave("first")
    assert bell.is_set()
    assert waiting.place("second").position == 1
    assert not waiting.try_take("second", 1.0)
    assert not bell.is_set()
    waiting.leave("second")
    waiting.leave("second")
    waiting.leave("nobody")
    assert admission.num_waiting == 0


def test_who_comes_by_another_door_does_not_jump_the_queue():
    waiting, admission = line()
    waiting.join("first")
    admission.give_back("somebody", 1.0)
    with pytest.raises(RealtimeError, match="taken"):
        admission.take("other", 1.0)
    assert waiting.try_take("first", 1.0)


def test_a_queue_that_is_full_refuses_at_once():
    waiting, _ = line(max_queue=1)
    waiting.join("first")
    with pytest.raises(RealtimeError, match="queue is full"):
        waiting.join("second")
    waiting.leave("second")


def test_a_bell_wakes_who_waits():
    async def run() -> None:
        waiting, admission = line()
        bell = waiting.join("first")
        asyncio.get_running_loop().call_soon(lambda: (admission.give_back("somebody", 1.0), waiting.ring()))
        await asyncio.wait_for(bell.wait(), 1)
        assert waiting.try_take("first", 1.0)

    asyncio.run(run())
