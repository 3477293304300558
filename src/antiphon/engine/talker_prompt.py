"""Lays the prompts of conditions that start together side by side for one launch."""

from collections.abc import Sequence

from torch import Tensor

from antiphon.config.checkpoint import TalkerConfig
from antiphon.engine.talker_job import TalkerCondition, TalkerMode
from antiphon.engine.talker_rows import RowStart, Rules, rules_of, start_columns
from antiphon.engine.talker_rules import ConditionPlan
from antiphon.engine.talker_sequence import TalkerSequence
from antiphon.engine.talker_start import StartBatch, StartToken
from antiphon.layers.slot_attention import Extension


class PromptBuilder:
    """Collects one launch."""

    def __init__(self, config: TalkerConfig) -> None:
        self._config = config
        self._tokens: list[StartToken] = []
        self._extensions: list[Extension] = []
        self._hidden: list[tuple[int, Tensor]] = []
        self._rows: list[list[int]] = []
        self._rules: list[Rules] = []

    @property
    def num_tokens(self) -> int:
        return len(self._tokens)

    @property
    def prompt_lens(self) -> tuple[int, ...]:
        return tuple(part.end - part.start for part in self._extensions)

    def batch(self) -> StartBatch:
        return StartBatch(self._tokens, self._extensions, self._hidden, self._rows, self._rules)

    def add(self, sequence: TalkerSequence, plan: ConditionPlan, slot: int) -> None:
        """Begin the next condition of *sequence* in *slot* and lay out its prompt."""
        history, previous = tuple(sequence.history), sequence.previous
        sequence.begin(plan, slot)
        first, place, position = len(self._tokens), sequence.length, sequence.position
        parts: list[TalkerCondition | Sequence[int]] = [sequence.condition]
        if plan.has_previous:
            assert previous is not None
            parts = [*previous, sequence.condition]
        for part in parts:
            offset = len(self._tokens) - first
            if isinstance(part, TalkerCondition):
                self._add_condition(sequence, part, slot, place + offset, position + offset)
            else:
                self._tokens += [
                    StartToken(slot, place + offset + i, position + offset + i, code=code, is_code=True)
                    for i, code in enumerate(part)
                ]
        end = len(self._tokens)
        self._extensions.append(Extension(slot, place, first, end))
        start = RowStart(
            slot=slot,
            last_token=end - 1,
            position=position + end - first,
            length=place + end - first,
            num_draws=sequence.num_draws,
            min_draws=plan.min_draws,
            max_draws=plan.max_draws,
            history=history,
        )
        self._rows.append(start_columns(start, sequence.job, self._config.num_codec_ids))
        self._rules.append(rules_of(sequence.job))

    def _add_condition(
        self, sequence: TalkerSequence, condition: TalkerCondition, slot: int, place: int, position: int
    ) -> None:
        config = self._config
        if condition.ids:
            self._hidden.append((len(self._tokens), condition.hidden))
        # The reference always normalises in duplex, whatever the checkpoint says.
        is_normalised = config.normalize_projected or sequence.job.mode is TalkerMode.UNIT
        ends = [config.text_eos_id] * condition.has_text_eos + [config.audio_bos_id]
        for i, text_id in enumerate((*condition.ids, *ends)):
            is_spoken = i < len(condition.ids)
            token = StartToken(
                slot,
                place + i,
                position + i,
                text_id=text_id,
                is_spoken=is_spoken,
                is_normalised=is_spoken and is_normalised,
            )
            self._tokens.append(token)
