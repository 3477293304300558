"""The life of a worker, as its supervisor sees it: states, events, and when a dead one is started again."""

from dataclasses import dataclass
from enum import Enum

from antiphon.core.errors import StateError


class WorkerState(str, Enum):
    STARTING = "starting"  # the process is there; it loads and warms up
    WIRING = "wiring"  # its stages are ready, its edges are being joined
    READY = "ready"
    DRAINING = "draining"  # finishes what it has; gets nothing new
    WAITING = "waiting"  # dead; starts again after a pause
    STOPPING = "stopping"  # told to end
    STOPPED = "stopped"  # ended as told
    FAILED = "failed"  # died too often; stays down


class WorkerEvent(str, Enum):
    STAGES_READY = "stages_ready"
    WIRED = "wired"
    TERMINATED = "terminated"  # somebody sent it SIGTERM
    STOP = "stop"
    DIED = "died"
    PAUSE_OVER = "pause_over"
    GIVEN_UP = "given_up"


_S, _E = WorkerState, WorkerEvent
TRANSITIONS: dict[tuple[WorkerState, WorkerEvent], WorkerState] = {
    (_S.STARTING, _E.STAGES_READY): _S.WIRING,
    (_S.WIRING, _E.WIRED): _S.READY,
    (_S.DRAINING, _E.TERMINATED): _S.DRAINING,
    (_S.DRAINING, _E.STAGES_READY): _S.DRAINING,
    **{(state, _E.TERMINATED): _S.DRAINING for state in (_S.STARTING, _S.WIRING, _S.READY)},
    **{(state, _E.DIED): _S.WAITING for state in (_S.STARTING, _S.WIRING, _S.READY, _S.DRAINING)},
    **{(state, _E.STOP): _S.STOPPING for state in (_S.STARTING, _S.WIRING, _S.READY, _S.DRAINING)},
    (_S.WAITING, _E.PAUSE_OVER): _S.STARTING,
    (_S.WAITING, _E.GIVEN_UP): _S.FAILED,
    (_S.WAITING, _E.STOP): _S.STOPPED,
    (_S.FAILED, _E.STOP): _S.STOPPED,
    (_S.STOPPED, _E.STOP): _S.STOPPED,
    (_S.STOPPING, _E.STOP): _S.STOPPING,
    (_S.STOPPING, _E.TERMINATED): _S.STOPPING,
    (_S.STOPPING, _E.STAGES_READY): _S.STOPPING,
    (_S.STOPPING, _E.DIED): _S.STOPPED,
}


def fire(state: WorkerState, event: WorkerEvent) -> WorkerState:
    """The state after *event*. Raises StateError, naming both, if the table has no such row."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise StateError(f"a worker that is {state.value} cannot be {event.value}") from None


@dataclass(frozen=True, kw_only=True)
class RestartPolicy:
    """Pauses double from `first_pause_s` to `max_pause_s`; a worker that died `max_deaths` times in a row stays down.

    A worker that was ready for `healthy_s` starts with a clean record.
    """

    first_pause_s: float = 0.5
    max_pause_s: float = 30.0
    max_deaths: int = 5
    healthy_s: float = 60.0

    def pause_s(self, num_deaths: int) -> float | None:
        """How long to wait after the *num_deaths*-th death in a row; None: give up."""
        if num_deaths >= self.max_deaths:
            return None
        return min(self.max_pause_s, self.first_pause_s * 2.0 ** (num_deaths - 1))
