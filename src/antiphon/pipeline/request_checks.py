"""Refuses a request that could only fail later: what its stages do not use, and what exceeds their positions."""

from collections.abc import Sequence
from dataclasses import dataclass

from antiphon.core.errors import ContextLengthError, SamplingError
from antiphon.core.handoff import Handoff
from antiphon.core.sampling import STAGE_NAMES, SamplingParams, check_stage

CLOSING_TOKENS = 2  # text_eos and audio_bos, behind the Talker's condition


@dataclass(frozen=True, kw_only=True)
class RequestLimits:
    """What the stages hold."""

    vocab_size: int
    thinker_positions: int
    talker_positions: int


def check_request(
    limits: RequestLimits, *, num_prompt: int, sampling: Sequence[SamplingParams], handoff: Handoff | None
) -> None:
    """Check one request; *handoff* None: it is not spoken.

    Raises:
        SamplingError: a field that its stage does not use, or a stop id outside the vocabulary.
        ContextLengthError: prompt and answer, or the answer's speech, exceed a model's positions.
    """
    for stage, params in zip(STAGE_NAMES, sampling, strict=True):
        check_stage(stage, params)
    outside = [token_id for token_id in sampling[0].stop_token_ids if token_id >= limits.vocab_size]
    if outside:
        raise SamplingError(
            f"stop_token_ids holds {outside[0]}; the vocabulary has the ids 0 to {limits.vocab_size - 1}"
        )
    max_tokens, context = sampling[0].max_tokens, limits.thinker_positions
    if num_prompt >= context:
        raise ContextLengthError(
            f"the prompt has {num_prompt} tokens, the model's context {context}: shorten the prompt or its media"
        )
    if num_prompt + max_tokens > context:
        raise ContextLengthError(
            f"the prompt has {num_prompt} tokens and max_tokens is {max_tokens}; the model's context is {context}: "
            f"shorten the prompt or set max_tokens to at most {context - num_prompt}"
        )
    max_spoken = limits.talker_positions - CLOSING_TOKENS - 1
    if handoff is Handoff.SPAN and max_tokens > max_spoken:
        raise ContextLengthError(
            f"max_tokens is {max_tokens}, but the talker can speak at most {max_spoken} tokens in one span: "
            "lower max_tokens or use the stream hand-off"
        )
