"""One job inside the Talker engine: its conditions, its row, and what came of them."""

from collections import deque
from collections.abc import Sequence

from antiphon.engine.step_window import Boundaries, ConditionEnd, WindowRow
from antiphon.engine.talker_job import TalkerCondition, TalkerFinish, TalkerJob, TalkerMode, TalkerOutput
from antiphon.engine.talker_rules import ConditionPlan, condition_len, plan_condition


class TalkerSequence:
    """Host side of a job. `position` and `length` are those behind the last condition that ended.

    Attributes:
        slot: None while the job holds no cache: before its first condition and between turns.
        waits_since_s: when it wanted a slot, on the engine's clock; None while it wants none.
        row: counters of the present condition; None before the first.
        is_closed: no condition comes any more.
    """

    def __init__(self, job: TalkerJob, *, eos_id: int, max_positions: int, boundaries: Boundaries) -> None:
        self.job = job
        self.conditions: deque[TalkerCondition] = deque()
        self.is_closed = False
        self.slot: int | None = None
        self.waits_since_s: float | None = None
        self.row: WindowRow | None = None
        self.position = self.length = 0
        self.num_draws = 0
        self.num_codes = 0
        self.previous: tuple[TalkerCondition, tuple[int, ...]] | None = None
        self._eos_id, self._max_positions, self._boundaries = eos_id, max_positions, boundaries
        self._turn_codes: list[int] = []
        self._own_codes: list[int] = []
        self._condition: TalkerCondition | None = None
        self._plan: ConditionPlan | None = None
        self._prompt_len = 0

    @property
    def is_speaking(self) -> bool:
        """Between the start and the end of a condition."""
        return self._condition is not None

    @property
    def can_start(self) -> bool:
        return bool(self.conditions) and not self.is_speaking

    @property
    def deadline_s(self) -> float:
        """Of the condition that is spoken, else of the next one."""
        condition = self._condition or (self.conditions[0] if self.conditions else None)
        own = None if condition is None else condition.deadline_s
        return self.job.deadline_s if own is None else own

    @property
    def needs_slot(self) -> bool:
        """Whether its cache matters: within a turn."""
        return self.is_speaking or self.position > 0

    @property
    def condition(self) -> TalkerCondition:
        """The condition being spoken."""
        assert self._condition is not None
        return self._condition

    @property
    def history(self) -> Sequence[int]:
        """Codes that the penalty of the next condition may see: those of the turn, or none."""
        return self._turn_codes if self.job.mode is TalkerMode.STREAM else ()

    @property
    def num_next_tokens(self) -> int:
        """Tokens of the next condition's prompt, at most: with what a rollover would feed again."""
        previous = self.previous
        num_again = 0 if previous is None else condition_len(previous[0]) + len(previous[1])
        return condition_len(self.conditions[0]) + num_again

    def plan_next(self) -> ConditionPlan | None:
        """How the next condition would be spoken; None if it fits no context."""
        previous = self.previous
        return plan_condition(
            self.job,
            self.conditions[0],
            position=self.position,
            num_codes=self.num_codes,
            previous_len=None if previous is None else condition_len(previous[0]) + len(previous[1]),
            max_positions=self._max_positions,
        )

    def begin(self, plan: ConditionPlan, slot: int) -> None:
        """The next condition is being fed by *plan*."""
        assert not self.is_speaking
        self._condition, self._plan = self.conditions.popleft(), plan
        if self.row is None or self.slot != slot:
            # A unit's own 25 steps are its boundary; 28 codes of a turn mean nothing to it.
            boundaries = None if self.job.mode is TalkerMode.UNIT else self._boundaries
            self.row = WindowRow(slot, eos_id=self._eos_id, max_positions=self._max_positions, boundaries=boundaries)
        self.slot = slot
        if plan.start == 0:
            self.position = self.length = 0
        self._own_codes = []

    def started(self, prompt_len: int, code: int) -> TalkerOutput:
        """The prompt of *prompt_len* tokens is fed and *code* drawn."""
        assert self.row is not None
        assert self._plan is not None
        plan = self._plan
        self.position += prompt_len
        self.length += prompt_len
        codes = self.row.begin_condition(
            position=self.position,
            code=code,
            min_draws=plan.min_draws,
            max_draws=plan.max_draws,
            emits_last=plan.emits_last,
        )
        self.num_draws += 1
        return self._report(codes, has_rolled_over=plan.has_rolled_over)

    def stepped(self, codes: tuple[int, ...], num_draws: int) -> TalkerOutput:
        """A window gave *codes* in *num_draws* draws that count."""
        self.num_draws += num_draws
        self.position += num_draws
        self.length += num_draws
        return self._report(codes, has_rolled_over=False)

    def leave_slot(self) -> None:
        """The slot was given back."""
        self.slot = self.row = None

    def output(
        self, codes: tuple[int, ...] = (), *, finish_reason: TalkerFinish | None, has_rolled_over: bool = False
    ) -> TalkerOutput:
        has_ended = self.row is not None and self.row.end is not None
        return TalkerOutput(
            seq_id=self.job.seq_id,
            epoch=self.job.epoch,
            codes=codes,
            condition_ended=has_ended,
            finish_reason=finish_reason,
            has_rolled_over=has_rolled_over,
        )

    def _report(self, codes: tuple[int, ...], *, has_rolled_over: bool) -> TalkerOutput:
        assert self.row is not None
        self._own_codes += codes
        self._turn_codes += codes
        self.num_codes += len(codes)
        output = self.output(codes, finish_reason=self._finish_reason(), has_rolled_over=has_rolled_over)
        if self.row.end is not None:
            self._end_condition(self.row.end)
        return output

    def _end_condition(self, end: ConditionEnd) -> None:
        condition = self.condition
        if end is ConditionEnd.LIMIT and self.job.mode is TalkerMode.STREAM:
            # The reference counts the last code of a piece cut by the limit and never feeds it: a gap of one.
            self.position += 1
        self.previous = (condition, tuple(self._own_codes))
        self._condition = self._plan = None
        if condition.ends_turn:
            self.position = self.length = 0
            self.previous = None
            self._turn_codes = []

    def _finish_reason(self) -> TalkerFinish | None:
        assert self.row is not None
        assert self._plan is not None
        end = self.row.end
        is_full = self.job.mode is TalkerMode.STREAM and self.num_codes >= self.job.max_codes
        if end is None or not (self.condition.is_last or is_full):
            return None
        if end is ConditionEnd.EOS:
            return "stop"
        if self.job.mode is TalkerMode.UNIT:
            return "stop"  # a unit is over after its second; the session ends because it was told to
        return "context" if self._plan.is_cut else "length"
