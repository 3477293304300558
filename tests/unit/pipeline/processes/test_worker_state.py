from itertools import product

import pytest

from antiphon.core.errors import StateError
from antiphon.pipeline.processes.worker_state import TRANSITIONS, RestartPolicy, WorkerEvent, WorkerState, fire


@pytest.mark.parametrize(("state", "event"), list(product(WorkerState, WorkerEvent)))
def test_every_pair_is_in_the_table_or_refused_by_name(state: WorkerState, event: WorkerEvent) -> None:
    if (state, event) in TRANSITIONS:
        assert fire(state, event) is TRANSITIONS[state, event]
    else:
        with pytest.raises(StateError, match=f"{state.value} cannot be {event.value}"):
            fire(state, event)


def test_every_state_with_a_process_can_die_and_be_stopped() -> None:
    for state in (WorkerState.STARTING, WorkerState.WIRING, WorkerState.READY, WorkerState.DRAINING):
        assert fire(state, WorkerEvent.DIED) is WorkerState.WAITING
        assert fire(state, WorkerEvent.STOP) is WorkerState.STOPPING
    assert fire(WorkerState.STOPPING, WorkerEvent.DIED) is WorkerState.STOPPED


def test_pauses_double_up_to_a_bound_and_end() -> None:
    policy = RestartPolicy(first_pause_s=0.5, max_pause_s=3.0, max_deaths=6)
    assert [policy.pause_s(deaths) for deaths in range(1, 7)] == [0.5, 1.0, 2.0, 3.0, 3.0, None]
