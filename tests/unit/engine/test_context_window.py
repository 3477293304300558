"""Units are a few rows each; every expectation is worked out by hand."""

import pytest

from antiphon.core.errors import ConfigError
from antiphon.engine.context_window import ContextWindow, Cut, Unit, WindowConfig, WindowMode

PREFIX, SUFFIX = 5, (90, 91)
TURN_EOS = 80


def unit(index: int, length: int, *, words: tuple[int, ...] | None = None, num_orphans: int = 0) -> Unit:
    return Unit(
        id=index,
        length=length,
        kind="audio",
        is_listen=words is None,
        content_ids=words or (),
        num_orphans=num_orphans,
    )


def fill(window: ContextWindow, units: list[Unit]) -> list[Cut | None]:
    """Add the units one after another to a cache that starts with the system part; one result per unit."""
    window.begin(PREFIX, SUFFIX)
    cuts: list[Cut | None] = []
    cache_len = window.num_preserved
    for entry in units:
        cache_len += entry.length + entry.num_orphans
        cut = window.add(entry, cache_len)
        cache_len = cache_len if cut is None else cut.length
        cuts.append(cut)
    return cuts


def basic(high: int, low: int) -> ContextWindow:
    return ContextWindow(WindowConfig(mode=WindowMode.BASIC, high_tokens=high, low_tokens=low))


def context(max_units: int, max_previous_ids: int = 500) -> ContextWindow:
    config = WindowConfig(mode=WindowMode.CONTEXT, max_units=max_units, max_previous_ids=max_previous_ids)
    return ContextWindow(config, marker_ids=(70, 71), special_ids=frozenset({TURN_EOS}))


def test_without_a_window_nothing_leaves() -> None:
    window = ContextWindow(WindowConfig())
    assert fill(window, [unit(i, 1000) for i in range(50)]) == [None] * 50
    assert len(window.units) == 50


def test_exactly_the_high_mark_cuts_nothing() -> None:
    assert fill(basic(high=27, low=10), [unit(0, 10), unit(1, 10)]) == [None, None]


def test_above_the_high_mark_whole_units_leave_until_the_low_mark() -> None:
    window = basic(high=30, low=18)
    cuts = fill(window, [unit(0, 10), unit(1, 10), unit(2, 4)])
    assert cuts[:2] == [None, None]
    # 31 rows: without unit 0 there are 21, still over 18; without unit 1 there are 11.
    assert cuts[2] == Cut(
        prefix=(0, 7),
        refeed_ids=(),
        tail=(27, 31),
        length=11,
        dropped=(unit(0, 10), unit(1, 10)),
    )
    assert [entry.id for entry in window.units] == [2]
    assert (window.num_cuts, window.num_dropped_tokens) == (1, 20)


def test_exactly_the_low_mark_is_low_enough() -> None:
    window = basic(high=30, low=21)
    assert fill(window, [unit(0, 10), unit(1, 10), unit(2, 4)])[2] is not None
    assert [entry.id for entry in window.units] == [1, 2]


def test_the_system_part_stays_even_when_it_alone_is_too_long() -> None:
    window = basic(high=6, low=2)
    cut = fill(window, [unit(0, 3)])[0]
    assert cut is not None
    assert (cut.prefix, cut.tail, cut.length) == ((0, 7), (10, 10), 7)
    assert window.units == []


def test_a_failed_attempt_leaves_with_the_unit_it_preceded() -> None:
    window = basic(high=20, low=15)
    cut = fill(window, [unit(0, 6, num_orphans=2), unit(1, 6)])[1]
    assert cut is not None
    assert (cut.tail, cut.length) == ((15, 21), 13)


def test_context_keeps_as_many_units_as_allowed() -> None:
    assert fill(context(max_units=2), [unit(0, 3), unit(1, 3)]) == [None, None]


def test_a_dropped_listening_unit_leaves_no_words_and_no_marker() -> None:
    window = context(max_units=1)
    cut = fill(window, [unit(0, 3), unit(1, 4)])[1]
    assert cut == Cut((0, 5), SUFFIX, (10, 14), 11, (unit(0, 3),))
    assert window.previous_ids == ()
    assert window.num_preserved == 7


def test_the_words_of_a_dropped_speaking_unit_go_between_prefix_and_suffix() -> None:
    window = context(max_units=1)
    cut = fill(window, [unit(0, 6, words=(11, 12, TURN_EOS)), unit(1, 4)])[1]
    assert cut is not None
    assert cut.refeed_ids == (70, 71, 11, 12, *SUFFIX)
    assert (cut.tail, cut.length) == ((13, 17), 5 + 4 + 2 + 4)
    assert window.num_preserved == 11


def test_a_unit_that_ended_by_listening_gives_no_words() -> None:
    window = context(max_units=1)
    silent = Unit(id=0, length=6, kind="audio", is_listen=True, content_ids=(11, TURN_EOS))
    fill(window, [silent, unit(1, 4)])
    assert window.content_ids == ()


def test_only_the_last_words_are_kept_and_the_marker_does_not_count() -> None:
    window = context(max_units=1, max_previous_ids=3)
    fill(window, [unit(0, 6, words=(11, 12)), unit(1, 6, words=(13, 14)), unit(2, 4)])
    assert window.content_ids == (12, 13, 14)
    assert window.previous_ids == (70, 71, 12, 13, 14)


def test_the_next_cut_starts_behind_the_previous_words() -> None:
    window = context(max_units=1)
    cuts = fill(window, [unit(0, 6, words=(11,)), unit(1, 4), unit(2, 3)])
    # After the first cut: 5 + marker 2 + word 1 + suffix 2 = 10 rows, then unit 1 (4) and unit 2 (3).
    assert cuts[2] is not None
    assert (cuts[2].tail, cuts[2].length) == ((14, 17), 13)
    # Ten rows of units went, three rows of words and marker came.
    assert (window.num_cuts, window.num_dropped_tokens) == (2, 7)


@pytest.mark.parametrize(
    "bad",
    [{"high_tokens": 10, "low_tokens": 11}, {"low_tokens": -1}, {"max_units": 0}, {"max_previous_ids": 0}],
)
def test_impossible_limits_are_refused(bad: dict[str, int]) -> None:
    with pytest.raises(ConfigError):
        WindowConfig(mode=WindowMode.BASIC, **bad)
