"""Which switches can be asked for, and how."""

import pytest

from antiphon.config.optimizations import SWITCHES, Exactness
from antiphon.core.errors import ConfigError
from antiphon.offline.gate.run import Choice, default_choices, parse_choice
from antiphon.offline.gate.trials import GATES, ON_BY_DEFAULT


def test_every_switch_with_a_fast_default_has_a_gate() -> None:
    slow_by_default = {"ngram_speculation", "cfm_steps", "cfm_tangent_stop", "cache_precision"}
    product = {name for name, switch in SWITCHES.items() if switch.exactness is Exactness.PRODUCT}
    assert set(ON_BY_DEFAULT) == set(SWITCHES) - product - slow_by_default
    assert default_choices() == [Choice(name, SWITCHES[name].default) for name in ON_BY_DEFAULT]


def test_the_slow_twin_of_a_gate_is_not_its_default() -> None:
    assert all(GATES[name].plain != SWITCHES[name].default for name in ON_BY_DEFAULT)


def test_a_value_can_be_given() -> None:
    assert parse_choice("cfm_steps=8") == Choice("cfm_steps", 8)
    assert parse_choice("hift_graph=true") == Choice("hift_graph", True)
    assert parse_choice("dit_precision") == Choice("dit_precision", "tf32")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("warp_drive", "no such switch"),
        ("hand_off", "product decision"),
        ("ngram_speculation=adaptive", "no fast path for it yet"),
        ("cfm_steps", "slow twin itself"),
        ("cfm_steps=0", "must be from 1 to 100"),
        ("cfm_graph=perhaps", "allowed: true, false"),
        ("cfm_graph=false", "slow twin itself"),
    ],
)
def test_what_cannot_be_gated_is_refused_by_name(text, message) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_choice(text)
