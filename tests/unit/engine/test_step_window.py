import random

import pytest

from antiphon.core.errors import ConfigError, StateError
from antiphon.engine.step_window import Boundaries, ConditionEnd, WindowLadder, WindowRow

EOS = 99
LADDER = WindowLadder((1, 2, 4, 8, 25, 28))


def build(slot=0, *, code=1, position=10, min_draws=0, max_draws=100, emits_last=False, limit=4096, boundaries=None):
    row = WindowRow(slot, eos_id=EOS, max_positions=limit, boundaries=boundaries)
    row.begin_condition(position=position, code=code, min_draws=min_draws, max_draws=max_draws, emits_last=emits_last)
    return row


def test_boundaries_lie_after_the_first_chunk_and_every_chunk_from_there():
    boundaries = Boundaries(28, 25)
    assert [boundaries.distance(count) for count in (0, 27, 28, 52, 53)] == [28, 1, 25, 1, 25]


@pytest.mark.parametrize(
    ("row", "num_steps"),
    [
        ({}, 28),
        ({"max_draws": 27}, 25),
        ({"max_draws": 8}, 4),
        ({"position": 4093}, 2),
        ({"boundaries": Boundaries(28, 25)}, 25),
        ({"boundaries": Boundaries(10, 25)}, 8),
    ],
)
def test_a_window_ends_before_limit_context_and_boundary(row, num_steps):
    assert LADDER.book([build(**row)]).num_steps == num_steps


@pytest.mark.parametrize(("slack", "num_steps"), [(0, 25), (1, 28)])
def test_slack_lets_a_window_pass_the_nearest_boundary(slack, num_steps):
    assert LADDER.book([build(boundaries=Boundaries(28, 25))], slack=slack).num_steps == num_steps


@pytest.mark.parametrize(("emits_last", "codes"), [(True, (2, 3)), (False, (2,))])
def test_what_a_window_draws_past_the_limit_does_not_count(emits_last, codes):
    row = build(max_draws=3, emits_last=emits_last)
    window = LADDER.book([row], slack=2)
    assert window.num_steps == 4
    assert row.commit(window, (2, 3, -1, -1)) == codes
    assert (row.end, row.num_draws, row.position) == (ConditionEnd.LIMIT, 3, 12)


def test_the_slowest_row_decides_and_rows_that_cannot_step_stay_out():
    rows = [build(0), build(1, max_draws=6), build(2, code=EOS), build(3)]
    rows[3].drop()
    window = LADDER.book(rows)
    assert (window.num_steps, window.rows) == (4, (rows[0], rows[1]))
    assert [row.booked for row in rows] == [4, 4, 0, 0]
    assert LADDER.book(rows) is None  # in flight


def test_codes_are_cut_at_the_first_end_and_positions_rolled_back():
    row = build()
    window = LADDER.book([row])
    codes = [5, 6, 7, EOS, *[3] * 24]
    assert row.commit(window, codes) == (5, 6, 7)
    # Four steps counted: they fed 1, 5, 6, 7 and drew 5, 6, 7 and the end.
    assert (row.position, row.num_draws, row.num_codes, row.last_code) == (14, 5, 4, 7)
    assert row.end is ConditionEnd.EOS
    assert not row.can_step


def test_the_next_condition_goes_on_behind_the_last_valid_code():
    row = build()
    row.commit(LADDER.book([row]), [5, EOS, *[3] * 26])
    row.begin_condition(position=row.position + 4, code=8, min_draws=0, max_draws=3, emits_last=False)
    assert (row.position, row.last_code, row.num_codes, row.num_draws, row.request_draws) == (16, 8, 3, 1, 4)
    row.commit(LADDER.book([row]), [4, 4])
    row.begin_turn()
    assert (row.position, row.num_codes) == (0, 0)


@pytest.mark.parametrize(("emits_last", "codes"), [(False, 25), (True, 26)])
def test_the_last_of_26_draws_is_lost_or_kept_and_not_in_the_cache(emits_last, codes):
    row = build(max_draws=26, emits_last=emits_last)
    assert len(row.commit(LADDER.book([row]), range(2, 27))) + 1 == codes
    assert (row.end, row.position, row.num_codes) == (ConditionEnd.LIMIT, 35, codes)


def test_an_end_code_at_the_limit_is_an_end():
    row = build(max_draws=2)
    assert row.commit(LADDER.book([row]), [EOS]) == ()
    assert row.end is ConditionEnd.EOS


def test_a_single_draw_may_end_a_condition_at_once():
    assert build(max_draws=1).end is ConditionEnd.LIMIT
    assert build(max_draws=1).last_code is None
    assert build(max_draws=1, emits_last=True).num_codes == 1


def test_the_end_of_the_positions_ends_a_condition():
    assert build(limit=10).end is ConditionEnd.CONTEXT
    row = build(limit=12)
    row.commit(LADDER.book([row]), [2, 3])
    assert row.end is ConditionEnd.CONTEXT


def test_the_end_is_masked_by_the_step_counter():
    row = build(min_draws=2)
    assert row.masks_end
    window = WindowLadder([1]).book([row])
    row.commit(window, [4])
    assert not row.masks_end


def test_a_dropped_row_brings_nothing_and_is_free_after_its_last_window():
    row = build()
    window = LADDER.book([row])
    row.drop()
    assert not row.can_free
    assert row.commit(window, [5] * 28) == ()
    assert row.can_free
    assert (row.position, row.num_codes) == (10, 1)


def test_misuse_is_refused_by_name():
    row = build()
    window = LADDER.book([row])
    with pytest.raises(StateError, match="28 steps"):
        row.commit(window, [1])
    with pytest.raises(StateError, match="has a window in flight and cannot begin a turn"):
        row.begin_turn()
    row.drop()
    row.commit(window, [1] * 28)
    with pytest.raises(StateError, match="not the one in flight"):
        row.commit(window, [1] * 28)
    with pytest.raises(StateError, match="was dropped and cannot begin a condition"):
        row.begin_condition(position=0, code=1, min_draws=0, max_draws=1, emits_last=True)
    for bad in ({"max_draws": 0}, {"position": 4097}):
        with pytest.raises(StateError, match="a condition of"):
            build(**bad)
    for lengths in ([], [2, 4], [0, 1]):
        with pytest.raises(ConfigError, match="1 must be among them"):
            WindowLadder(lengths)


def speak(ladder, streams, chance):
    """Voice *streams* (draws up to the end code), rows joining at random; returns the codes by stream."""
    rows, out, waiting, at = {}, {name: [] for name in streams}, list(streams), {}
    while waiting or any(row.can_step for row in rows.values()):
        if waiting and (chance.random() < 0.3 or not any(row.can_step for row in rows.values())):
            name = waiting.pop()
            rows[name] = build(code=streams[name][0], boundaries=Boundaries(28, 25), max_draws=200)
            out[name] += streams[name][:1] if rows[name].num_codes else []
            at[name] = 1
            continue
        window = ladder.book(list(rows.values()))
        for name, row in rows.items():
            if row in window.rows:
                drawn = (streams[name][at[name] :] + [7] * 300)[: window.num_steps]
                codes = row.commit(window, drawn)
                out[name] += codes
                at[name] += window.num_steps
    assert all(row.position == 10 + row.num_draws - 1 for row in rows.values())
    return out


@pytest.mark.parametrize("longest", [1, 2, 4, 8, 25, 28])
def test_the_codes_do_not_depend_on_windows_or_neighbours(longest):
    chance = random.Random(longest)
    ladder = WindowLadder([length for length in LADDER.lengths if length <= longest])
    streams = {str(index): [chance.randrange(50) for _ in range(chance.randrange(90))] + [EOS] for index in range(16)}
    assert speak(ladder, streams, chance) == {name: codes[:-1] for name, codes in streams.items()}
