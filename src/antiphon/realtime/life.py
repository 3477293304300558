"""The life of a session (specification section 6.1): who is attached, and how it ends."""

from enum import Enum

from antiphon.realtime.machine import Machine


class Life(str, Enum):
    OPENING = "opening"  # admitted, holds a slot; the engine has not answered
    ATTACHED = "attached"
    DETACHED = "detached"  # the socket is gone; whoever holds the token may come back
    CLOSING = "closing"  # nothing model-made leaves any more; the engine cleans up
    ENDED = "ended"  # the terminal event is written, the slot is free


class LifeEvent(str, Enum):
    OPENED = "opened"
    DETACH = "detach"
    ATTACH = "attach"  # a resume, or a takeover while attached
    END = "end"  # close, expiry, or the engine's failure
    CLEANED = "cleaned"  # the engine has let go


TRANSITIONS = {
    (Life.OPENING, LifeEvent.OPENED): Life.ATTACHED,
    (Life.OPENING, LifeEvent.END): Life.CLOSING,
    (Life.ATTACHED, LifeEvent.DETACH): Life.DETACHED,
    (Life.ATTACHED, LifeEvent.ATTACH): Life.ATTACHED,
    (Life.ATTACHED, LifeEvent.END): Life.CLOSING,
    (Life.DETACHED, LifeEvent.ATTACH): Life.ATTACHED,
    (Life.DETACHED, LifeEvent.END): Life.CLOSING,
    (Life.CLOSING, LifeEvent.CLEANED): Life.ENDED,
}

# The public session object knows three of them (section 5).
PUBLIC = {
    Life.OPENING: "open",
    Life.ATTACHED: "open",
    Life.DETACHED: "open",
    Life.CLOSING: "closing",
    Life.ENDED: "closed",
}


def life_machine() -> Machine[Life, LifeEvent]:
    return Machine("session", TRANSITIONS, Life.OPENING)
