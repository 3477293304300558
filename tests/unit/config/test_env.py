import pytest

from antiphon.config.env import VARIABLES, read_environment
from antiphon.config.optimizations import SWITCHES
from antiphon.config.problems import DeployError


def test_an_empty_environment_changes_nothing() -> None:
    found = read_environment({})
    assert (found.input_wait_timeout_s, found.abort_timeout_s, found.log_color) == (600.0, 2.0, True)
    assert found.num_visible_devices is None
    assert not found.switches
    assert found.switches_layer() == {}


def test_every_switch_has_its_rollback_variable() -> None:
    names = {variable.name for variable in VARIABLES}
    assert {switch.variable for switch in SWITCHES.values()} <= names
    text = {switch.variable: str(switch.default).lower() for switch in SWITCHES.values()}
    assert read_environment(text).switches == {name: switch.default for name, switch in SWITCHES.items()}


def test_the_references_names_are_understood() -> None:
    found = read_environment(
        {"VLLM_OMNI_INPUT_WAIT_TIMEOUT_S": "3", "VLLM_LOGGING_COLOR": "0", "CUDA_VISIBLE_DEVICES": "2,3"}
    )
    assert (found.input_wait_timeout_s, found.log_color, found.num_visible_devices) == (3.0, False, 2)
    assert read_environment({"VLLM_OMNI_INPUT_WAIT_TIMEOUT_S": "soon"}).input_wait_timeout_s == 600.0
    assert read_environment({"MINICPMO_TOKEN2WAV_TRT": "1"}).ignored == {"MINICPMO_TOKEN2WAV_TRT": "1"}


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("ANTIPHON_CFM_STEPS", "zero", "a whole number is needed"),
        ("ANTIPHON_CFM_STEPS", "0", "from 1 to 100"),
        ("ANTIPHON_CFM_GRAPH", "maybe", "allowed: true, false"),
        ("ANTIPHON_CFM_GRAF", "1", "did you mean 'ANTIPHON_CFM_GRAPH'?"),
        ("ANTIPHON_INPUT_WAIT_TIMEOUT_S", "-1", "seconds from 0"),
        ("ANTIPHON_ABORT_TIMEOUT_S", "inf", "seconds from 0"),
        ("ANTIPHON_LOG_COLOR", "blue", "allowed: true, false"),
    ],
)
def test_a_bad_value_or_name_is_refused(name: str, text: str, words: str) -> None:
    with pytest.raises(DeployError, match=r"environment: ") as caught:
        read_environment({name: text})
    assert words in str(caught.value)
