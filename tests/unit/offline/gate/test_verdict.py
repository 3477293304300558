"""When a gate passes: every figure within its limit, and every counter moved."""

from antiphon.offline.gate.verdict import Check, Verdict, judge

GOOD = Check(name="difference", value=0.0, limit=0.0)
BAD = Check(name="drift", value=0.2, limit=0.1)


def test_figures_within_their_limits_and_a_moved_counter_pass() -> None:
    assert judge([GOOD], {"cfm_graph": 3}) == (Verdict.PASS, "")


def test_a_missed_limit_fails_by_name() -> None:
    assert judge([GOOD, BAD], {"cfm_graph": 3}) == (Verdict.FAIL, "missed: drift")


def test_a_fast_path_that_was_not_taken_fails_however_good_the_figures() -> None:
    verdict, reason = judge([GOOD], {"cfm_graph": 0})
    assert verdict is Verdict.FAIL
    assert "counter cfm_graph is 0" in reason


def test_a_figure_that_is_not_a_number_never_passes() -> None:
    assert not Check(name="x", value=float("nan"), limit=1.0).has_passed
    assert not Check(name="x", value=float("nan"), limit=1.0, is_at_least=True).has_passed
