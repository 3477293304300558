"""The duplex decision: listen, speak, a word or an end, drawn in two stages (model specification, 5.3)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.engine.logits_filters import forbid, keep_nucleus
from antiphon.engine.noise import NoiseSource
from antiphon.engine.sampling_range import require_range


@dataclass(frozen=True, kw_only=True)
class DecisionSampling:
    """Parameters of the decision, with the reference's defaults.

    `listen_prob_scale` and `listen_top_k` act on the tokenizer's end token, not on `<|listen|>`: a reference behaviour
    kept for parity, useless as a listen control.
    """

    is_greedy: bool = False
    temperature: float = 0.7
    top_k: int = 20
    top_p: float = 0.8
    listen_prob_scale: float = 1.0
    listen_top_k: int | None = None
    repetition_penalty: float = 1.05
    penalty_window: int = 512  # recorded ids, across turns
    length_penalty: float = 1.1  # above 1: turns end later

    def __post_init__(self) -> None:
        require_range("temperature", self.temperature, 0.0, above=not self.is_greedy)
        require_range("top_k", self.top_k, 0)
        require_range("top_p", self.top_p, 0.0, 1.0)
        require_range("listen_prob_scale", self.listen_prob_scale, 0.0)
        require_range("repetition_penalty", self.repetition_penalty, 0.0, above=True)
        require_range("penalty_window", self.penalty_window, 1)
        require_range("length_penalty", self.length_penalty, 0.0, above=True)
        if self.listen_top_k is not None:
            require_range("listen_top_k", self.listen_top_k, 1)


@dataclass(frozen=True, kw_only=True)
class DecisionIds:
    """The ids the rule knows by role. `forbidden`: the talker pad and the checkpoint's bad ids."""

    chunk_eos: int
    turn_eos: int
    tokenizer_eos: int
    forbidden: tuple[int, ...]


@dataclass(frozen=True)
class Decision:
    """The id drawn, and whether it enters the history that the repetition penalty sees."""

    token_id: int
    is_recorded: bool


def decision_scores(logits: Tensor, history: Sequence[int], sampling: DecisionSampling, ids: DecisionIds) -> Tensor:
    """Scores [V] float32 of the second draw before its temperature: masks, penalties, listen scale.

    *history*: the recorded ids of the session, oldest first; only the last `penalty_window` matter.
    """
    scores = forbid(logits.float(), torch.tensor((*ids.forbidden, ids.chunk_eos), device=logits.device))
    recent = sorted(set(history[-sampling.penalty_window :]))
    if recent:
        # The reference divides whatever the sign: a repeated unlikely id becomes more likely. Kept: it changes words.
        seen = torch.tensor(recent, dtype=torch.int64, device=logits.device)
        scores = scores.index_copy(0, seen, scores[seen] / sampling.repetition_penalty)
    turn_eos = scores[ids.turn_eos]
    scores[ids.turn_eos] = torch.where(
        turn_eos > 0, turn_eos / sampling.length_penalty, turn_eos * sampling.length_penalty
    )
    scores[ids.tokenizer_eos] = scores[ids.tokenizer_eos] * sampling.listen_prob_scale  # whatever the sign
    return scores


def decide(
    logits: Tensor, history: Sequence[int], sampling: DecisionSampling, ids: DecisionIds, noise: NoiseSource
) -> Decision:
    """Draw one id from raw logits [V].

    Sampling takes one draw from *noise* if the first stage ends the chunk or the rank rule answers, else two; greedy
    takes none. The caller appends recorded ids to its history as drawn here, also if it then feeds another id.
    """
    wide = logits.float()
    # Stage one sees the bare model: temperature 1, nothing masked, so chunk lengths do not depend on the parameters.
    first = int(wide.argmax()) if sampling.is_greedy else noise.draw(wide.softmax(-1))
    if first == ids.chunk_eos:
        return Decision(first, is_recorded=False)
    scores = decision_scores(logits, history, sampling, ids)
    if sampling.listen_top_k is not None:
        rank = int((scores > scores[ids.tokenizer_eos]).sum())
        if rank < sampling.listen_top_k:
            return Decision(ids.tokenizer_eos, is_recorded=False)
    if sampling.is_greedy:
        return Decision(int(scores.argmax()), is_recorded=True)
    scores = keep_nucleus(scores / sampling.temperature, sampling.top_k, sampling.top_p)
    return Decision(noise.draw(scores.softmax(-1)), is_recorded=True)
