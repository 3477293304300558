"""Brings a command line of `vllm serve` into the form that typer parses, and sets aside what is not for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from types import UnionType
from typing import Annotated, Union, get_args, get_origin

from antiphon.cli.serve_flags import IGNORED_FLAGS, LIST_FLAGS, REFUSED_FLAGS
from antiphon.core.errors import ConfigError


@dataclass
class ServeArgs:
    """A command line, taken apart."""

    rest: list[str] = field(default_factory=list)  # for typer
    engine: dict[str, object] = field(default_factory=dict)  # keys of a deploy file
    ignored: dict[str, str] = field(default_factory=dict)  # flag to reason


@dataclass(frozen=True)
class OwnFlags:
    """What typer knows: each flag, and whether a value follows."""

    takes_value: Mapping[str, bool]


def read_serve_args(args: Sequence[str], own: OwnFlags) -> ServeArgs:
    """Sort *args*.

    Raises:
        ConfigError: an unknown flag (with the nearest known one), a refused one, or a value that is missing.
    """
    found = ServeArgs()
    waiting = list(args)
    has_model = any(token.partition("=")[0] == "--model" for token in args)
    engine_flags = known_engine_flags()
    while waiting:
        token = waiting.pop(0)
        if not token.startswith("-") or token == "-":
            has_model = True
            found.rest.append(token)
            continue
        written, equals, inline = token.partition("=")
        name = written.replace("_", "-") if written.startswith("--") else written
        if equals:
            waiting.insert(0, inline)
        if name in REFUSED_FLAGS:
            raise ConfigError(f"{name}: {REFUSED_FLAGS[name]}")
        if name in own.takes_value:
            found.rest.append(name)
            if own.takes_value[name]:
                found.rest.append(_value(name, waiting))
            # Behind the model there is nothing else that bare words could be.
            while name in LIST_FLAGS and has_model and waiting and not waiting[0].startswith("-"):
                found.rest += [name, waiting.pop(0)]
        elif name in IGNORED_FLAGS:
            flag = IGNORED_FLAGS[name]
            value = _value(name, waiting) if flag.takes_value else None
            if flag.allowed is not None and value not in flag.allowed:
                raise ConfigError(f"{name} is {value!r}; possible here: {', '.join(flag.allowed)} ({flag.reason})")
            found.ignored[name] = flag.reason
        elif name in engine_flags or name.replace("--no-", "--", 1) in engine_flags:
            _engine_flag(name, waiting, engine_flags, found.engine)
        else:
            known = [*own.takes_value, *IGNORED_FLAGS, *engine_flags]
            near = get_close_matches(name, known, n=1)
            raise ConfigError(f"no such option: {name}" + (f"; did you mean {near[0]}?" if near else ""))
    return found


def _value(name: str, waiting: list[str]) -> str:
    if not waiting:
        raise ConfigError(f"{name} needs a value")
    return waiting.pop(0)


def _engine_flag(name: str, waiting: list[str], flags: Mapping[str, bool], engine: dict[str, object]) -> None:
    """A key of a deploy file, for every stage. Values are read as YAML reads them."""
    import yaml

    is_negated = name not in flags
    positive = name.replace("--no-", "--", 1) if is_negated else name
    key = positive[2:].replace("-", "_")
    if not flags[positive]:
        engine[key] = not is_negated
        return
    if is_negated:
        raise ConfigError(f"{name}: {positive} is no switch; give it a value")
    text = _value(name, waiting)
    try:
        engine[key] = yaml.safe_load(text)
    except yaml.YAMLError:
        raise ConfigError(f"{name}: {text!r} cannot be read") from None


def known_engine_flags() -> dict[str, bool]:
    """Each stage and pipeline key that the deploy schema knows, as a flag, and whether a value follows."""
    from antiphon.config.schema import DeploySection, StageSection

    sections = frozenset({"stages", "platforms", "connectors", "edges", "duplex_session", "optimizations", "pipeline"})
    fields = {
        **{name: entry.annotation for name, entry in DeploySection.model_fields.items() if name not in sections},
        **{name: entry.annotation for name, entry in StageSection.model_fields.items()},
    }
    return {f"--{name.replace('_', '-')}": not _is_switch(kind) for name, kind in fields.items()}


def _is_switch(kind: object) -> bool:
    if get_origin(kind) in (Union, UnionType, Annotated):
        return any(_is_switch(part) for part in get_args(kind))
    return kind is bool
