"""A request's sampling parameters as the engines take them."""

from antiphon.core.sampling import SamplingParams
from antiphon.engine.talker_sampling import TalkerSampling
from antiphon.engine.thinker_messages import ThinkerSampling


def text_sampling(params: SamplingParams, *, seed: int, end_ids: tuple[int, ...]) -> ThinkerSampling:
    """Of the Thinker. *end_ids*: the model's own terminators."""
    return ThinkerSampling(
        temperature=params.temperature,
        top_p=params.top_p,
        top_k=max(params.top_k, 0),
        min_p=params.min_p,
        repetition_penalty=params.repetition_penalty,
        frequency_penalty=params.frequency_penalty,
        presence_penalty=params.presence_penalty,
        min_tokens=params.min_tokens,
        max_tokens=params.max_tokens,
        stop_token_ids=params.stop_token_ids,
        end_ids=end_ids,
        ignore_eos=params.ignore_eos,
        seed=seed,
    )


def code_sampling(params: SamplingParams) -> TalkerSampling:
    """Of the Talker. Greedy takes the best whatever the temperature, which must not be 0 here."""
    return TalkerSampling(
        temperature=params.temperature or 1.0,
        top_p=params.top_p,
        top_k=max(params.top_k, 0),
        repetition_penalty=params.repetition_penalty,
    )
