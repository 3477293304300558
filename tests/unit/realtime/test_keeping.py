"""Journal, lease, outbox and admission: what is kept for a client, for how long, and how much of it."""

import pytest

from antiphon.core.errors import ConfigError
from antiphon.core.ids import CountingIds
from antiphon.realtime.admission import Admission
from antiphon.realtime.journal import Journal
from antiphon.realtime.lease import Lease
from antiphon.realtime.limits import Limits
from antiphon.realtime.outbox import Outbox
from antiphon.wire.realtime.errors import RealtimeError


def filled(count: int) -> Journal:
    journal = Journal(max_bytes=100, ttl_s=60)
    for _ in range(count):
        assert journal.add(b"0123456789", 0.0)
    return journal


def test_what_is_acknowledged_can_no_longer_be_replayed():
    journal = filled(5)
    assert journal.acknowledge(3)
    assert not journal.acknowledge(6)
    assert journal.can_replay(3)
    assert not journal.can_replay(2)
    assert len(journal.after(3)) == 2


def test_an_empty_journal_remembers_its_boundary():
    journal = filled(2)
    journal.acknowledge(2)
    assert not journal.can_replay(0)
    assert journal.can_replay(2)


def test_entries_expire_at_their_time():
    journal = filled(2)
    journal.expire(59.9)
    assert journal.num_bytes == 20
    journal.expire(60.0)
    assert (journal.num_bytes, journal.boundary) == (0, 2)


def test_an_overflown_journal_replays_nothing():
    journal = filled(10)
    assert not journal.add(b"x", 0.0)
    assert journal.has_overflown
    assert not journal.can_replay(journal.head)


def lease() -> Lease:
    return Lease(CountingIds(), idle_ttl_s=300, grace_s=30, now_s=0)


def test_a_used_token_is_refused_while_attached():
    held = lease()
    old = held.issue()
    held.attach(1)
    new = held.issue()
    assert held.accepts(new)
    assert not held.accepts(old)


def test_the_old_token_counts_when_the_last_attachment_never_spoke():
    held = lease()
    old = held.issue()
    held.detach(1)
    held.attach(2)
    held.issue()
    held.detach(3)
    assert held.accepts(old)


def test_the_old_token_is_dead_once_the_new_attachment_spoke():
    held = lease()
    old = held.issue()
    held.detach(1)
    held.attach(2)
    held.issue()
    held.hear(2.5)
    held.detach(3)
    assert not held.accepts(old)


def test_grace_is_not_extended_by_activity():
    held = lease()
    held.detach(10)
    held.touch(20)
    assert held.expiry(is_busy=False) == (40, "disconnect_grace_expired")


def test_a_busy_session_does_not_idle_out():
    held = lease()
    assert held.expiry(is_busy=True) is None
    assert held.expiry(is_busy=False) == (300, "idle_ttl_expired")


def test_no_token_of_an_ended_session_is_good():
    held = lease()
    token = held.issue()
    held.retire()
    assert not held.accepts(token)


def test_errors_have_a_reserve_when_the_outbox_is_full():
    box = Outbox(Limits(max_pending_output_bytes=10, reserved_output_bytes=10))
    assert box.put(b"12345678")
    assert not box.put(b"12345")
    assert box.is_overflown
    assert box.put(b"12345", is_reserved=True)
    box.put_terminal(b"terminal that is long")
    box.close(1000, "x")
    assert not box.put(b"1")
    assert [box.get() for _ in range(4)] == [b"12345678", b"12345", b"terminal that is long", None]


def test_one_frame_always_fits_and_a_replay_too():
    box = Outbox(Limits(max_pending_output_bytes=1, max_pending_output_events=1))
    assert box.put(b"large")
    assert box.put(b"replayed", is_replay=True)
    assert not box.is_overflown


def test_the_queue_for_slots_is_first_in_first_out():
    admission = Admission(Limits(max_sessions=1, max_queue=2))
    admission.take("a", 0)
    assert admission.enqueue("b").position == 1
    assert admission.enqueue("c").position == 2
    with pytest.raises(RealtimeError):
        admission.enqueue("d")
    admission.give_back("a", 10)
    with pytest.raises(RealtimeError):
        admission.take("d", 11)
    assert admission.is_next("b")
    admission.leave("b")
    admission.take("c", 12)
    assert (admission.num_taken, admission.num_waiting) == (1, 0)


def test_a_slot_is_given_back_once():
    admission = Admission(Limits(max_sessions=1))
    admission.take("a", 0)
    admission.give_back("a", 1)
    admission.give_back("a", 1)
    assert admission.num_taken == 0


@pytest.mark.parametrize("value", [0, -1, True])
def test_limits_are_positive(value):
    with pytest.raises(ConfigError, match="max_sessions"):
        Limits(max_sessions=value)
