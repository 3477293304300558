from itertools import product

import pytest

from antiphon.core.errors import StateError
from antiphon.realtime import life, turn
from antiphon.realtime.life import Life, LifeEvent, life_machine
from antiphon.realtime.machine import Machine
from antiphon.realtime.turn import Turn, TurnEvent


@pytest.mark.parametrize(("state", "event"), list(product(Life, LifeEvent)))
def test_every_pair_of_the_life_table_leads_somewhere_or_changes_nothing(state, event):
    machine = Machine("session", life.TRANSITIONS, state)
    target = life.TRANSITIONS.get((state, event))
    assert machine.can(event) == (target is not None)
    if target is not None:
        assert machine.fire(event) is target
    else:
        with pytest.raises(StateError, match=f"{event.value} .* {state.value}"):
            machine.fire(event)
        assert machine.state is state


@pytest.mark.parametrize(("state", "event"), list(product(Turn, TurnEvent)))
def test_the_turn_knows_every_event_in_every_state(state, event):
    machine = Machine("turn", turn.TRANSITIONS, state)
    assert machine.fire(event) is turn.TRANSITIONS[state, event]


def test_an_ended_session_stays_ended():
    assert not [event for event in LifeEvent if (Life.ENDED, event) in life.TRANSITIONS]


def test_a_session_that_closes_cannot_be_attached_again():
    machine = life_machine()
    for event in (LifeEvent.OPENED, LifeEvent.DETACH, LifeEvent.END):
        machine.fire(event)
    assert not machine.can(LifeEvent.ATTACH)


def test_talking_over_the_assistant_does_not_take_its_turn():
    assert turn.TRANSITIONS[Turn.GENERATING, TurnEvent.USER_STARTED] is Turn.GENERATING
    assert turn.TRANSITIONS[Turn.GENERATING, TurnEvent.INTERRUPTED] is Turn.BARGE_IN
