import random

import pytest

from antiphon.core.errors import CapacityError, ConfigError, StateError
from antiphon.engine.slots import SlotPool


def test_the_lowest_free_slot_is_lent_first():
    pool = SlotPool(3)
    assert [pool.lend(name) for name in "abc"] == [0, 1, 2]
    pool.give_back(1, "b")
    pool.give_back(0, "a")
    assert pool.lend("d") == 0


def test_a_full_pool_says_so_with_numbers():
    pool = SlotPool(1, name="talker slots")
    pool.lend("a")
    with pytest.raises(CapacityError, match=r"talker slots: all 1 .* b must wait"):
        pool.lend("b")


def test_a_slot_is_given_back_by_its_borrower_only():
    pool = SlotPool(1)
    slot = pool.lend("a")
    with pytest.raises(StateError, match="lent to a, b cannot"):
        pool.give_back(slot, "b")
    pool.give_back(slot, "a")
    with pytest.raises(StateError, match="lent to nobody"):
        pool.retire(slot, "a", 1)


def test_a_retired_slot_returns_after_its_fence():
    pool = SlotPool(2)
    pool.retire(pool.lend("a"), "a", 5)
    pool.retire(pool.lend("b"), "b", 6)
    assert not pool.is_lent_to(0, "a")
    assert pool.pass_fence(4) == ()
    assert pool.pass_fence(5) == (0,)
    assert (pool.num_free, pool.num_retired, pool.num_lent) == (1, 1, 0)
    assert pool.pass_fence(9) == (1,)


def test_an_empty_pool_is_refused():
    with pytest.raises(ConfigError, match="0 slots"):
        SlotPool(0)


@pytest.mark.parametrize("seed", range(5))
def test_random_lending_shares_and_loses_no_slot(seed):
    chance = random.Random(seed)
    pool, lent, retired, fence = SlotPool(6), {}, {}, 0
    for number in range(1000):
        action = chance.choice(["lend", "give_back", "retire", "pass"])
        if action == "lend" and pool.num_free:
            slot = pool.lend(str(number))
            assert slot not in lent
            assert slot not in retired
            lent[slot] = str(number)
        elif action in ("give_back", "retire") and lent:
            slot = chance.choice(list(lent))
            name = lent.pop(slot)
            if action == "retire":
                fence += 1
                retired[slot] = fence
                pool.retire(slot, name, fence)
            else:
                pool.give_back(slot, name)
        elif action == "pass":
            passed = chance.randint(0, fence)
            due = {slot for slot, at in retired.items() if at <= passed}
            assert set(pool.pass_fence(passed)) == due
            retired = {slot: at for slot, at in retired.items() if slot not in due}
        assert all(pool.is_lent_to(slot, name) for slot, name in lent.items())
        assert pool.num_free + len(lent) + len(retired) == 6
    for slot, name in lent.items():
        pool.give_back(slot, name)
    pool.pass_fence(fence)
    assert pool.num_free == 6
