"""Whether the machine has room decides beside the number of slots; the rest of admission is in test_keeping."""

import pytest

from antiphon.core.errors import AntiphonError, CapacityError, ConfigError, EngineError, MediaError, StateError
from antiphon.realtime.admission import Admission
from antiphon.realtime.limits import Limits
from antiphon.realtime.session import opening_error
from antiphon.wire.realtime.errors import RealtimeError


class Machine:
    def __init__(self) -> None:
        self.has_room = True
        self.admission = Admission(Limits(max_sessions=3), lambda: self.has_room)


def test_without_room_a_free_slot_is_not_given() -> None:
    machine = Machine()
    machine.admission.take("a", 0)
    machine.has_room = False
    with pytest.raises(RealtimeError, match="in time") as refused:
        machine.admission.take("b", 1)
    assert refused.value.code == "resource_exhausted"
    assert machine.admission.num_taken == 1


def test_who_waits_is_next_once_there_is_room_again() -> None:
    machine = Machine()
    machine.has_room = False
    machine.admission.enqueue("b")
    assert not machine.admission.is_next("b")
    machine.has_room = True
    assert machine.admission.is_next("b")
    machine.admission.take("b", 2)
    assert (machine.admission.num_taken, machine.admission.num_waiting) == (1, 0)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (CapacityError("full"), "resource_exhausted"),
        (EngineError("dead"), "engine_dead"),
        (StateError("closed"), "engine_dead"),
        (MediaError("noise"), "invalid_session_config"),
        (ConfigError("bad"), "invalid_session_config"),
        (RealtimeError("ref_audio_required", "why"), "ref_audio_required"),
    ],
)
def test_a_client_is_told_by_code_why_the_engine_did_not_open(error: AntiphonError, code: str) -> None:
    told = opening_error(error)
    assert told.code == code
    assert str(error) in str(told)
