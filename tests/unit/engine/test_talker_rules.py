import pytest
import torch

from antiphon.engine.talker_job import TalkerCondition, TalkerJob, TalkerMode
from antiphon.engine.talker_rules import ConditionPlan, condition_len, plan_condition
from antiphon.engine.talker_sampling import TalkerSampling


def plan(mode, *, length=4, position=0, num_codes=0, previous_len=None, max_positions=4096, max_codes=2047, **fields):
    job = TalkerJob(
        seq_id="a", epoch=0, sampling=TalkerSampling(), seed=0, mode=mode, min_codes=50, max_codes=max_codes
    )
    condition = TalkerCondition(
        **({"ids": (1,) * length, "hidden": torch.zeros(length, 2), "has_text_eos": False, "is_last": False} | fields)
    )
    return plan_condition(
        job,
        condition,
        position=position,
        num_codes=num_codes,
        previous_len=previous_len,
        max_positions=max_positions,
    )


def test_a_condition_is_its_ids_and_its_specials():
    hidden = torch.zeros(2, 2)
    assert condition_len(TalkerCondition(ids=(1, 2), hidden=hidden, has_text_eos=True, is_last=True)) == 4
    assert condition_len(TalkerCondition(ids=(1, 2), hidden=hidden, has_text_eos=False, is_last=True)) == 3


def test_a_span_draws_one_more_than_it_may_give():
    assert plan(TalkerMode.SPAN) == ConditionPlan(0, 50, 2048, emits_last=False)


def test_a_span_is_cut_where_the_positions_end():
    assert plan(TalkerMode.SPAN, max_positions=20) == ConditionPlan(0, 50, 15, emits_last=False, is_cut=True)
    assert plan(TalkerMode.SPAN, max_positions=5) is None


def test_a_piece_of_a_stream_gives_all_it_draws():
    assert plan(TalkerMode.STREAM, position=30) == ConditionPlan(30, 0, 500, emits_last=True)


def test_a_stream_never_gives_more_codes_than_asked_for():
    assert plan(TalkerMode.STREAM, position=30, num_codes=90, max_codes=100) == ConditionPlan(
        30, 0, 10, emits_last=True
    )


@pytest.mark.parametrize(
    ("position", "ends_turn", "min_draws"), [(0, False, 0), (40, False, 26), (40, True, 0), (0, True, 0)]
)
def test_only_the_first_and_the_last_unit_of_a_turn_may_end_early(position, ends_turn, min_draws):
    planned = plan(TalkerMode.UNIT, position=position, ends_turn=ends_turn)
    assert planned == ConditionPlan(position, min_draws, 26, emits_last=False)


def test_a_condition_s_own_limits_go_first():
    planned = plan(TalkerMode.UNIT, position=40, min_codes=3, max_draws=7)
    assert planned == ConditionPlan(40, 3, 7, emits_last=False)


@pytest.mark.parametrize(("previous_len", "has_previous"), [(30, True), (39, True), (40, False), (None, False)])
def test_a_full_context_is_rebuilt_with_what_fits(previous_len, has_previous):
    planned = plan(TalkerMode.UNIT, position=50, previous_len=previous_len, max_positions=70)
    assert planned == ConditionPlan(0, 26, 26, emits_last=False, has_rolled_over=True, has_previous=has_previous)


def test_a_unit_that_fits_no_context_has_no_plan():
    assert plan(TalkerMode.UNIT, position=50, max_positions=30) is None
