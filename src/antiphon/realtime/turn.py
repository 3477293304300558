"""Whose turn it is (specification section 5), as a table over every state and event.

The turn state is what a client is told; it decides nothing. So no event may be impossible in a state: what changes
nothing stays where it is, and says so here.
"""

from enum import Enum

from antiphon.realtime.machine import Machine


class Turn(str, Enum):
    IDLE = "idle"
    USER_SPEAKING = "user_speaking"
    USER_COMMITTED = "user_committed"
    GENERATING = "assistant_generating"
    PLAYING = "assistant_playing"
    BARGE_IN = "barge_in"


class TurnEvent(str, Enum):
    USER_STARTED = "user_started"
    USER_COMMITTED = "user_committed"
    INPUT_CLEARED = "input_cleared"
    ASSISTANT_STARTED = "assistant_started"
    ASSISTANT_DONE = "assistant_done"  # everything generated; the client may still play
    PLAYED = "playback_ack"  # and now it does not
    INTERRUPTED = "barge_in"


_ASSISTANT = (Turn.GENERATING, Turn.PLAYING)

TRANSITIONS: dict[tuple[Turn, TurnEvent], Turn] = {
    **{(state, TurnEvent.USER_STARTED): Turn.USER_SPEAKING for state in Turn},
    # Who talks over the assistant does not take its turn away: only an interruption does.
    **{(state, TurnEvent.USER_STARTED): state for state in _ASSISTANT},
    **{(state, TurnEvent.USER_COMMITTED): Turn.USER_COMMITTED for state in Turn},
    **{(state, TurnEvent.USER_COMMITTED): state for state in _ASSISTANT},
    **{(state, TurnEvent.INPUT_CLEARED): Turn.IDLE for state in Turn},
    **{(state, TurnEvent.INPUT_CLEARED): state for state in _ASSISTANT},
    **{(state, TurnEvent.ASSISTANT_STARTED): Turn.GENERATING for state in Turn},
    **{(state, TurnEvent.ASSISTANT_DONE): state for state in Turn},
    (Turn.GENERATING, TurnEvent.ASSISTANT_DONE): Turn.PLAYING,
    **{(state, TurnEvent.PLAYED): state for state in Turn},
    (Turn.PLAYING, TurnEvent.PLAYED): Turn.IDLE,
    **{(state, TurnEvent.INTERRUPTED): Turn.BARGE_IN for state in Turn},
}


def turn_machine() -> Machine[Turn, TurnEvent]:
    return Machine("turn", TRANSITIONS, Turn.IDLE)
