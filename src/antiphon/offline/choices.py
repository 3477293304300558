"""What callers choose by name (device, dtype, layout, hand-off), parsed; a wrong name is refused."""

from pathlib import Path

import torch

from antiphon.config.deploy import DeployConfig
from antiphon.config.env import read_environment
from antiphon.config.layout_checks import check_visible
from antiphon.config.load import load_deploy
from antiphon.config.problems import DeployError
from antiphon.core.errors import ConfigError
from antiphon.core.handoff import Handoff

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def parse_handoff(value: Handoff | str) -> Handoff:
    try:
        return Handoff(value)
    except ValueError:
        raise ConfigError(f"handoff is {value!r}; known: {', '.join(kind.value for kind in Handoff)}") from None


def parse_deploy(value: str | Path | DeployConfig | None, device: torch.device, stage_overrides: str) -> DeployConfig:
    """The deploy configuration in force; None is the shipped layout for one *device*. Raises DeployError."""
    if isinstance(value, DeployConfig):
        if stage_overrides:
            raise ConfigError("stage_overrides go with a file's name, not with a loaded deploy configuration")
        return value
    is_cpu = device.type == "cpu"
    name = str(value) if value is not None else "cpu.yaml" if is_cpu else "minicpmo_4_5.yaml"
    config = load_deploy(
        name,
        platform="cpu" if is_cpu else "cuda",
        stage_overrides=stage_overrides,
        environment=read_environment(),
    )
    hidden = [] if is_cpu else check_visible(config, torch.cuda.device_count())
    if hidden:
        raise DeployError(hidden)
    return config


def parse_device(value: str | torch.device | None) -> torch.device:
    if value is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(value)
    except RuntimeError:
        raise ConfigError(f"device is {value!r}; use 'cpu', 'cuda' or 'cuda:N'") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"device is {value!r}, but this machine has no usable GPU; use 'cpu'")
    return device


def parse_dtype(value: str | torch.dtype | None) -> torch.dtype | None:
    if value is None or value == "auto" or isinstance(value, torch.dtype):
        return value if isinstance(value, torch.dtype) else None
    if value not in _DTYPES:
        raise ConfigError(f"dtype is {value!r}; known: auto, {', '.join(_DTYPES)}")
    return _DTYPES[value]
