import numpy as np

from antiphon.realtime.input_buffer import Second
from antiphon.realtime.limits import UNIT_SAMPLES
from antiphon.realtime.unit_chain import UnitChain


def second(value: float = 0.5) -> Second:
    return Second(np.full(UNIT_SAMPLES, value, np.float32), (), False, True)


def push(chain: UnitChain, *, value: float = 0.5, is_final: bool = False, response_id: str | None = None) -> None:
    chain.push(second(value), epoch=0, is_final=is_final, force_listen=False, response_id=response_id)


def test_one_unit_at_a_time_leaves():
    chain = UnitChain()
    push(chain)
    push(chain)
    first = chain.next()
    assert first is not None
    assert chain.next() is None
    chain.finish(0, first.number)
    following = chain.next()
    assert following is not None
    assert following.number == 1


def test_real_audio_calls_a_waiting_silence_unit_off():
    chain = UnitChain()
    push(chain)
    chain.next()
    chain.push_silence(epoch=0, force_listen=False, response_id="r")
    push(chain, value=0.25)
    assert len(chain) == 2
    chain.finish(0, 0)
    unit = chain.next()
    assert unit is not None
    assert (unit.number, unit.is_silence, float(unit.samples[0])) == (1, False, 0.25)


def test_the_end_of_a_unit_of_another_epoch_is_ignored():
    chain = UnitChain()
    push(chain)
    chain.next()
    chain.start_epoch(1, None)
    assert chain.finish(0, 0) is None
    push(chain)
    unit = chain.next()
    assert unit is not None
    assert unit.number == 0


def test_a_new_epoch_keeps_what_waits_but_not_the_cancelled_responses():
    chain = UnitChain()
    push(chain)
    chain.next()
    push(chain, response_id="r", is_final=True)
    push(chain, value=0.25)
    chain.push_silence(epoch=0, force_listen=False, response_id="r")
    chain.start_epoch(3, "r")
    unit = chain.next()
    assert unit is not None
    assert (unit.epoch, float(unit.samples[0])) == (3, 0.25)
    assert len(chain) == 1


def test_commits_wait_until_their_last_unit_is_finished():
    chain = UnitChain()
    push(chain, is_final=True)
    push(chain)
    chain.mark_final()
    assert chain.num_commits == 2
    chain.next()
    chain.finish(0, 0)
    assert chain.num_commits == 1


def test_drop_committed_keeps_the_turn_under_way():
    chain = UnitChain()
    push(chain)
    push(chain, is_final=True)
    push(chain, value=0.25)
    chain.drop_committed()
    unit = chain.next()
    assert unit is not None
    assert float(unit.samples[0]) == 0.25


def test_taking_the_turn_under_way_back_leaves_turns_that_have_ended():
    chain = UnitChain()
    push(chain, value=0.1)
    push(chain, value=0.2, is_final=True)
    push(chain, value=0.3)
    assert [link.unit.samples[0] for link in chain.drop_uncommitted()] == [np.float32(0.3)]
    assert len(chain) == 2
