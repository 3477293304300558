"""The only place that reads environment variables: one table of names, types and defaults."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from antiphon.config.ignored import IGNORED
from antiphon.config.optimizations import SWITCHES, SwitchValue
from antiphon.config.origin import Origin, OriginKind, Sourced, Tree
from antiphon.config.problems import DeployError, Problem, hint

PREFIX = "ANTIPHON_"


@dataclass(frozen=True, kw_only=True)
class Variable:
    """One environment variable. `aliases` are other systems' names for it; the first that is set counts."""

    name: str
    kind: str
    default: object
    about: str
    aliases: tuple[str, ...] = ()


_OWN = (
    Variable(
        name="ANTIPHON_INPUT_WAIT_TIMEOUT_S",
        kind="seconds",
        default=600.0,
        about="a request ends when its next chunk does not arrive for so long; 0 waits for ever",
        aliases=("VLLM_OMNI_INPUT_WAIT_TIMEOUT_S",),
    ),
    Variable(
        name="ANTIPHON_ABORT_TIMEOUT_S",
        kind="seconds",
        default=2.0,
        about="how long an abort waits for the stages",
        aliases=("VLLM_OMNI_ABORT_TIMEOUT",),
    ),
    Variable(
        name="ANTIPHON_LOG_COLOR",
        kind="true or false",
        default=True,
        about="coloured logs",
        aliases=("VLLM_LOGGING_COLOR",),
    ),
    Variable(
        name="CUDA_VISIBLE_DEVICES",
        kind="comma list",
        default=None,
        about="the set that `devices` of a deploy file are indices into",
        aliases=("ASCEND_RT_VISIBLE_DEVICES",),
    ),
)
# The OpenTelemetry SDK reads these, and more, by itself; here they only say whether traces are wanted.
_TRACES = (
    Variable(
        name="OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        kind="address",
        default=None,
        about="traces are sent there; OpenTelemetry's other OTEL_ variables count too",
        aliases=("OTEL_EXPORTER_OTLP_ENDPOINT",),
    ),
    Variable(name="OTEL_TRACES_EXPORTER", kind="otlp or none", default=None, about="none: no traces"),
    Variable(name="OTEL_SDK_DISABLED", kind="true or false", default=False, about="true: no traces"),
    Variable(
        name="OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
        kind="grpc or http/protobuf",
        default="grpc",
        about="how traces are sent",
        aliases=("OTEL_EXPORTER_OTLP_PROTOCOL",),
    ),
    Variable(name="OTEL_SERVICE_NAME", kind="word", default="antiphon", about="whose traces they are"),
)
_ROLLBACK = tuple(
    Variable(
        name=switch.variable,
        kind="true or false" if isinstance(switch.default, bool) else type(switch.default).__name__,
        default=None,
        about=f"overrides optimizations.{switch.name}: {switch.about}",
    )
    for switch in SWITCHES.values()
)
VARIABLES: tuple[Variable, ...] = (*_OWN, *_TRACES, *_ROLLBACK)

_WORDS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


@dataclass(frozen=True, kw_only=True)
class Environment:
    """What the environment says. `switches` override every file; `ignored` are set but without effect here."""

    input_wait_timeout_s: float = 600.0
    abort_timeout_s: float = 2.0
    log_color: bool = True
    num_visible_devices: int | None = None  # None: not restricted
    sends_traces: bool = False
    traces_protocol: str = "grpc"
    service_name: str = "antiphon"
    switches: Mapping[str, SwitchValue] = field(default_factory=dict)
    ignored: Mapping[str, str] = field(default_factory=dict)  # name to value

    def switches_layer(self) -> Tree:
        section: Tree = {
            name: Sourced(value, Origin(OriginKind.ENVIRONMENT, SWITCHES[name].variable))
            for name, value in self.switches.items()
        }
        return {"optimizations": section} if section else {}


def read_environment(environ: Mapping[str, str] | None = None) -> Environment:
    """Parse what is set. Raises DeployError listing every bad value and every unknown `ANTIPHON_` name.

    Args:
        environ: for tests; None reads this process's.
    """
    environ = os.environ if environ is None else environ
    known = {variable.name for variable in VARIABLES}
    problems = [
        Problem("environment", f"unknown variable {name}; {hint(name, known)}")
        for name in sorted(environ)
        if name.startswith(PREFIX) and name not in known
    ]
    switches: dict[str, SwitchValue] = {}
    for switch in SWITCHES.values():
        text = environ.get(switch.variable)
        if text is None:
            continue
        value = _switch_value(text, switch.default)
        if refusal := switch.refusal(value):
            problems.append(Problem("environment", f"{switch.variable} {refusal}"))
        else:
            switches[switch.name] = value
    wait, abort, color, visible = (_lookup(environ, variable) for variable in _OWN)
    is_color = _WORDS.get((color or "1").lower())
    if is_color is None:
        problems.append(Problem("environment", f"ANTIPHON_LOG_COLOR is {color!r}; allowed: true, false"))
    found = Environment(
        input_wait_timeout_s=_seconds(_OWN[0].name, wait, 600.0, problems),
        abort_timeout_s=_seconds(_OWN[1].name, abort, 2.0, problems),
        log_color=bool(is_color),
        num_visible_devices=None if visible is None else len([part for part in visible.split(",") if part.strip()]),
        sends_traces=_sends_traces(environ),
        traces_protocol=_lookup(environ, _TRACES[3]) or "grpc",
        service_name=_lookup(environ, _TRACES[4]) or "antiphon",
        switches=switches,
        ignored={name: environ[name] for name in IGNORED["environment"] if name in environ},
    )
    if problems:
        raise DeployError(problems)
    return found


def _lookup(environ: Mapping[str, str], variable: Variable) -> str | None:
    return next((environ[name] for name in (variable.name, *variable.aliases) if name in environ), None)


def _sends_traces(environ: Mapping[str, str]) -> bool:
    endpoint, exporter, disabled = (_lookup(environ, variable) for variable in _TRACES[:3])
    if (disabled or "").lower() == "true" or exporter == "none":
        return False
    return bool(endpoint) or exporter == "otlp"


def _switch_value(text: str, default: SwitchValue) -> SwitchValue:
    if isinstance(default, bool):
        return _WORDS.get(text.lower(), text)
    if isinstance(default, int):
        return int(text) if text.strip().isascii() and text.strip().isdecimal() else text
    return text


def _seconds(name: str, text: str | None, default: float, problems: list[Problem]) -> float:
    """The reference's rule: no number at all counts as unset, a number out of range is refused."""
    try:
        value = default if text is None else float(text)
    except ValueError:
        return default
    if not math.isfinite(value) or value < 0:
        problems.append(Problem("environment", f"{name} is {text!r}; seconds from 0, and 0 means no limit"))
        return default
    return value
