"""The sampling parameters of a request's three stages: what it says, on top of the deploy file's defaults."""

from collections.abc import Mapping
from dataclasses import fields, replace

from antiphon.core.errors import SamplingError
from antiphon.core.sampling import STAGE_NAMES, SamplingParams, check_stage
from antiphon.wire.chat import ChatRequest

StageParams = tuple[SamplingParams, SamplingParams, SamplingParams]

# OpenAI's fields that go to the Thinker. `max_completion_tokens` is OpenAI's newer name of `max_tokens`.
_TEXT_FIELDS = (
    *("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty"),
    *("max_tokens", "min_tokens", "seed", "stop", "stop_token_ids", "ignore_eos"),
)
# In a set of `sampling_params_list`: what the reference's engine takes, and has no effect on an answer here.
_WITHOUT_EFFECT = (
    *("detokenize", "skip_special_tokens", "spaces_between_special_tokens", "include_stop_str_in_output"),
    *("n", "best_of", "logprobs", "prompt_logprobs", "output_kind", "extra_args"),
)
_NOTHING: tuple[object, ...] = (None, 1, 0, False)


def stage_params(request: ChatRequest, defaults: StageParams) -> StageParams:
    """The complete sets of *request*.

    A set in `sampling_params_list` takes the place of its stage's defaults and of OpenAI's fields.

    Raises:
        SamplingError: a field that is unknown, out of range, or without a meaning in its stage.
    """
    if request.sampling_params_list is None:
        return (_text_params(request, defaults[0]), defaults[1], defaults[2])
    given = [_complete_set(number, values) for number, values in enumerate(request.sampling_params_list)]
    stages = [*given, *defaults[len(given) :]]
    return (stages[0], stages[1], stages[2])


def _text_params(request: ChatRequest, defaults: SamplingParams) -> SamplingParams:
    limits = {request.max_tokens, request.max_completion_tokens} - {None}
    if len(limits) == 2:
        raise SamplingError("max_completion_tokens and max_tokens name the same limit and differ; give one of them")
    values = {name: getattr(request, name) for name in _TEXT_FIELDS}
    values["max_tokens"] = next(iter(limits), None)
    # An empty list asks for nothing.
    explicit = {name: value for name, value in values.items() if value is not None and value != []}
    return replace(defaults, **explicit)


def _complete_set(stage: int, values: Mapping[str, object]) -> SamplingParams:
    where = f"sampling_params_list[{stage}]"
    for name in ("n", "best_of", "logprobs", "prompt_logprobs"):
        if values.get(name) not in _NOTHING:
            raise SamplingError(f"{where}: {name} is {values[name]!r}, which is not supported; leave it out")
    known = {
        name: value
        for name, value in values.items()
        if name not in _WITHOUT_EFFECT and value is not None and value != []
    }
    try:
        if stage == 2:
            return _vocoder_params(known)
        if stage == 1:
            known = _without_code_end(known)
        params = SamplingParams.from_mapping(known)
        check_stage(STAGE_NAMES[stage], params)
    except SamplingError as error:
        raise SamplingError(f"{where}: {error}") from None
    return params


def _without_code_end(values: Mapping[str, object]) -> dict[str, object]:
    """Clients of the reference name the end of speech, which always ends it, as a stop id."""
    return {name: value for name, value in values.items() if name != "stop_token_ids"}


def _vocoder_params(values: Mapping[str, object]) -> SamplingParams:
    """Nothing is drawn from a distribution here: only the seed counts, the rest is checked and without effect."""
    SamplingParams.from_mapping(values)
    kept = {name: value for name, value in values.items() if name in ("seed", "max_tokens")}
    return SamplingParams.from_mapping({"temperature": 0.0, **kept})


assert set(_TEXT_FIELDS) == {field.name for field in fields(SamplingParams)}
