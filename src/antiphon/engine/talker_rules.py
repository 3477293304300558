"""How many codes a condition may give and where it is put: the rules of the three modes, and the rollover."""

from dataclasses import dataclass

from antiphon.engine.talker_job import TalkerCondition, TalkerJob, TalkerMode

UNIT_DRAWS = 26  # of which the last is lost: 25 codes are 1 s
PIECE_DRAWS = 500  # of one condition of a stream


@dataclass(frozen=True)
class ConditionPlan:
    """How the next condition is spoken.

    Attributes:
        start: its first position. A rolled-over one starts at 0.
        min_draws: draws for which the end code is masked.
        max_draws: draws at most; 0: nothing may be drawn any more.
        emits_last: whether the draw that reaches `max_draws` is a code, or is lost as in the reference.
        is_cut: fewer draws than asked for, because the positions end.
        has_rolled_over: the cache is dropped, and unless it does not fit
        has_previous: the previous condition and its codes are fed again in front.
    """

    start: int
    min_draws: int
    max_draws: int
    emits_last: bool
    is_cut: bool = False
    has_rolled_over: bool = False
    has_previous: bool = False


def condition_len(condition: TalkerCondition) -> int:
    """Tokens of a condition with its closing specials."""
    return len(condition.ids) + condition.has_text_eos + 1


def plan_condition(
    job: TalkerJob,
    condition: TalkerCondition,
    *,
    position: int,
    num_codes: int,
    previous_len: int | None,
    max_positions: int,
) -> ConditionPlan | None:
    """Plan *condition*, or None if it fits no context.

    Args:
        job: whose turn.
        condition: what comes next.
        position: where it would go on; 0 at the start of a turn.
        num_codes: valid codes of the job so far.
        previous_len: tokens of the previous condition and its codes; None: there is none.
        max_positions: the context limit.
    """
    num_tokens = condition_len(condition)
    if job.mode is TalkerMode.SPAN:
        num_free = max_positions - num_tokens
        if num_free < 1:
            return None
        wanted = job.max_codes + 1 if condition.max_draws is None else condition.max_draws
        least = job.min_codes if condition.min_codes is None else condition.min_codes
        return ConditionPlan(0, least, min(wanted, num_free), emits_last=False, is_cut=wanted > num_free)
    is_unit = job.mode is TalkerMode.UNIT
    if is_unit:
        most = UNIT_DRAWS
        least = 0 if position == 0 or condition.ends_turn else UNIT_DRAWS
    else:
        most, least = min(PIECE_DRAWS, job.max_codes - num_codes), 0
    most = most if condition.max_draws is None else condition.max_draws
    least = least if condition.min_codes is None else condition.min_codes
    if position + num_tokens + most <= max_positions:
        return ConditionPlan(position, least, most, emits_last=not is_unit)
    has_previous = previous_len is not None and previous_len + num_tokens + most <= max_positions
    if not has_previous and num_tokens + most > max_positions:
        return None
    return ConditionPlan(0, least, most, emits_last=not is_unit, has_rolled_over=True, has_previous=has_previous)
