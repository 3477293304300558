import numpy as np
import pytest

from antiphon.core.errors import SamplingError
from antiphon.core.sampling import DEFAULT_STAGE_PARAMS, STAGE_NAMES, SamplingParams, check_stage


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -1),
        ("temperature", float("nan")),
        ("temperature", 1e308),
        ("temperature", 1e-300),
        ("temperature", True),
        ("top_p", 0),
        ("top_p", 1.5),
        ("top_k", -2),
        ("top_k", 2.5),
        ("min_p", -0.1),
        ("repetition_penalty", "x"),
        ("repetition_penalty", 0),
        ("presence_penalty", 3),
        ("frequency_penalty", None),
        ("max_tokens", 0),
        ("max_tokens", -1),
        ("max_tokens", "5"),
        ("max_tokens", 10**9),
        ("min_tokens", -1),
        ("min_tokens", 4000),
        ("seed", 2**70),
        ("seed", -1),
        ("stop", ["x"] * 10_000),
        ("stop", [""]),
        ("stop", 5),
        ("stop", [5]),
        ("stop_token_ids", "151645"),
        ("stop_token_ids", [-1]),
        ("stop_token_ids", [1] * 129),
        ("ignore_eos", 1),
    ],
)
def test_a_value_out_of_range_is_refused_with_the_field_s_name(field: str, value: object) -> None:
    with pytest.raises(SamplingError, match=field) as caught:
        SamplingParams.from_mapping({field: value})
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


def test_an_unknown_field_is_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(SamplingError, match="unknown sampling field 'temprature'; did you mean 'temperature'"):
        SamplingParams.from_mapping({"temprature": 1})


def test_an_unknown_field_without_a_near_one_gets_the_list() -> None:
    with pytest.raises(SamplingError, match="'xyzzy'; known: temperature, top_p"):
        SamplingParams.from_mapping({"xyzzy": 1})


def test_values_are_brought_to_plain_types() -> None:
    params = SamplingParams(temperature=1, top_k=np.int64(5), stop="END", stop_token_ids=[3])
    assert (params.temperature, params.top_k, params.stop, params.stop_token_ids) == (1.0, 5, ("END",), (3,))
    assert type(params.temperature) is float
    assert type(params.top_k) is int


def test_the_defaults_of_the_stages_are_those_of_the_deploy_files() -> None:
    thinker, talker, code2wav = DEFAULT_STAGE_PARAMS
    assert (thinker.temperature, thinker.repetition_penalty, thinker.max_tokens, thinker.seed) == (0.0, 1.0, 2048, 42)
    assert (talker.temperature, talker.top_p, talker.top_k, talker.repetition_penalty) == (0.8, 0.85, 25, 1.05)
    assert (talker.min_tokens, talker.seed, code2wav.seed) == (50, 42, 42)


@pytest.mark.parametrize("stage", range(3))
def test_every_stage_accepts_its_own_defaults(stage: int) -> None:
    check_stage(STAGE_NAMES[stage], DEFAULT_STAGE_PARAMS[stage])


@pytest.mark.parametrize(
    ("stage", "fields"),
    [
        ("talker", {"stop": "x"}),
        ("talker", {"min_p": 0.1}),
        ("talker", {"ignore_eos": True}),
        ("code2wav", {"top_p": 0.5}),
        ("code2wav", {"temperature": 0.5}),
    ],
)
def test_a_field_that_a_stage_would_ignore_is_refused(stage: str, fields: dict[str, object]) -> None:
    with pytest.raises(SamplingError, match=f"{next(iter(fields))}.*{stage}"):
        check_stage(stage, SamplingParams.from_mapping(fields))


def test_a_neutral_value_of_an_unused_field_is_accepted() -> None:
    check_stage("code2wav", SamplingParams(temperature=0, top_p=1.0, top_k=0, max_tokens=65_536))
