"""Runs the gates of chosen switches one after another, and says what each found."""

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter

import torch

from antiphon.config.optimizations import SWITCHES, Exactness, SwitchValue
from antiphon.core.errors import ConfigError
from antiphon.engine.counters import Counters
from antiphon.offline.gate.subject import Subject, settings_with
from antiphon.offline.gate.trials import GATES, ON_BY_DEFAULT, Run
from antiphon.offline.gate.verdict import GateResult, Verdict, judge


@dataclass(frozen=True)
class Choice:
    """A switch and the setting that is to be let through."""

    switch: str
    fast: SwitchValue


def default_choices() -> list[Choice]:
    """Every switch that is on by default, at its default."""
    return [Choice(name, SWITCHES[name].default) for name in ON_BY_DEFAULT]


def parse_choice(text: str) -> Choice:
    """`cfm_graph`, or with another setting than its default `cfm_steps=8`.

    Raises:
        ConfigError: no such switch, no gate for it, or a value that is not allowed.
    """
    name, _, word = text.partition("=")
    switch = SWITCHES.get(name)
    if switch is None:
        raise ConfigError(f"--switch {name!r}: no such switch; known: {', '.join(GATES)}")
    if switch.exactness is Exactness.PRODUCT:
        raise ConfigError(
            f"--switch {name}: a product decision ({switch.about}); listen, and measure with `antiphon bench`"
        )
    value = _parse_value(word, switch.default) if word else switch.default
    if refusal := switch.refusal(value):
        raise ConfigError(f"--switch {name}: {refusal}")
    if name not in GATES:
        raise ConfigError(f"--switch {name}: this engine has no fast path for it yet, so there is nothing to gate")
    if value == GATES[name].plain:
        raise ConfigError(f"--switch {name}: {value} is the slow twin itself; give another value, as {name}=VALUE")
    return Choice(name, value)


def run_gates(subject: Subject, choices: Sequence[Choice]) -> Iterator[GateResult]:
    """Try *choices* in order; a refused setting is refused before anything runs.

    Raises:
        DeployError: the engine refuses a setting.
    """
    for choice in choices:
        settings_with(subject.candidate, **{choice.switch: choice.fast})
    return (_run_gate(subject, choice) for choice in choices)


def _run_gate(subject: Subject, choice: Choice) -> GateResult:
    gate, exactness = GATES[choice.switch], SWITCHES[choice.switch].exactness
    if reason := gate.missing(subject):
        return GateResult(
            switch=choice.switch,
            exactness=exactness,
            plain=gate.plain,
            fast=choice.fast,
            verdict=Verdict.NOT_SHOWN,
            reason=reason,
        )
    counters, start_s = Counters(), perf_counter()
    with _deterministic_convolutions():
        checks = gate.trial(
            Run(subject=subject, switch=choice.switch, plain=gate.plain, fast=choice.fast, counters=counters)
        )
    used = {name: counters.used[name] for name in gate.counters}
    verdict, reason = judge(checks, used)
    _free(subject.device)
    return GateResult(
        switch=choice.switch,
        exactness=exactness,
        plain=gate.plain,
        fast=choice.fast,
        verdict=verdict,
        checks=tuple(checks),
        used=used,
        fell_back={f"{name}: {why}": count for (name, why), count in counters.fell_back.items() if name in used},
        reason=reason,
        duration_s=perf_counter() - start_s,
    )


@contextmanager
def _deterministic_convolutions() -> Iterator[None]:
    """Of cuDNN's algorithms only those that give the same sums every time; what was set before comes back.

    Its usual ones add in the order of arrival: two plain runs of the vocoder differ by 2e-5 in float32 and 4e-3 in TF32
    on an H200, and nothing could be called lossless.
    """
    before = torch.backends.cudnn.deterministic
    torch.backends.cudnn.deterministic = True
    try:
        yield
    finally:
        torch.backends.cudnn.deterministic = before


def _parse_value(word: str, default: SwitchValue) -> SwitchValue:
    if isinstance(default, bool):
        return {"true": True, "false": False}.get(word.lower(), word)
    if isinstance(default, int) and word.lstrip("-").isdecimal():
        return int(word)
    return word


def _free(device: torch.device) -> None:
    """Engines of real size would not fit into memory beside each other."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
