"""One unit of a duplex session: its rule, the ids fed in it, and what a decision of the device means for it."""

from dataclasses import dataclass, field

from antiphon.engine.duplex_memory import DuplexMemory
from antiphon.engine.duplex_seat_rule import DuplexIds, DuplexSeatRule
from antiphon.engine.thinker_messages import DuplexRule
from antiphon.layers.decision_rows import ID_MASK


@dataclass
class DuplexTurn:
    """A unit. The device drew with what `seat_rule` said, so the host only reads its decisions."""

    sampling: DuplexRule
    wants_hidden: bool
    closes_turn: bool = False
    generated: list[int] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        return len(self.generated) >= self.max_kept

    @property
    def max_kept(self) -> int:
        """Ids that may be fed: the last token of a unit is its end."""
        return self.sampling.max_tokens - 1

    @property
    def limit_stop_id(self) -> int:
        """What ends a unit that may not go on."""
        return self.sampling.ids.chunk_eos

    def judge(self, decision: int) -> tuple[int | None, int | None]:
        """The id that is fed, or the one that ends the unit instead."""
        token = decision & ID_MASK
        if token in self.sampling.terminators:
            return None, token
        accepts = self.sampling.accepts
        if accepts is not None and self.generated and not accepts((*self.generated[1:], token)):
            return None, self.limit_stop_id
        return token, None

    def take(self, decision: int, kept: int | None, memory: DuplexMemory) -> None:
        """Go on behind a decision, which was judged."""
        memory.take(decision, is_greedy=self.sampling.sampling.is_greedy, listen_id=self.sampling.listen_id)
        if kept is not None:
            self.generated.append(kept)
            # Ids may follow the end of a turn in its unit, and open it again.
            memory.is_turn_open = kept != self.sampling.ids.turn_eos

    def seat_rule(self, memory: DuplexMemory) -> DuplexSeatRule:
        rule, sampling = self.sampling, self.sampling.sampling
        return DuplexSeatRule(
            is_greedy=sampling.is_greedy,
            temperature=1.0 if sampling.is_greedy else sampling.temperature,
            top_k=sampling.top_k,
            top_p=sampling.top_p,
            listen_prob_scale=sampling.listen_prob_scale,
            listen_top_k=sampling.listen_top_k or 0,
            repetition_penalty=sampling.repetition_penalty,
            penalty_window=sampling.penalty_window,
            length_penalty=sampling.length_penalty,
            seed=rule.seed,
            draw_step=memory.num_noise,
            is_turn_open=memory.is_turn_open,
            history=tuple(memory.history)[-sampling.penalty_window :],
        )


def duplex_ids(rule: DuplexRule) -> DuplexIds:
    """The ids of *rule* by role."""
    ids = rule.ids
    return DuplexIds(
        chunk_eos=ids.chunk_eos,
        turn_eos=ids.turn_eos,
        tokenizer_eos=ids.tokenizer_eos,
        listen=rule.listen_id,
        tts_bos=rule.tts_bos_id,
        forbidden=tuple(sorted({*ids.forbidden, ids.chunk_eos})),
    )
