"""What `/version` says beside the version, so that a measurement can be told from another: software, device, switches.

Nothing here says where files lie.
"""

from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from platform import machine, python_version

import torch

from antiphon.config.deploy import DeployConfig, StageConfig

_PACKAGES = ("torch", "triton", "numpy", "pyzmq", "starlette", "uvicorn")


def server_facts(deploy: DeployConfig, device: torch.device, *, in_processes: bool) -> dict[str, object]:
    """Of a server of *deploy* on *device*."""
    return {
        "versions": _versions(),
        "device": _device_name(device),
        "session_mode": deploy.session_mode,
        "processes": in_processes,
        "stages": {stage.name: _stage(stage) for stage in deploy.stages},
        "optimizations": asdict(deploy.optimizations),
    }


def _versions() -> Mapping[str, str | None]:
    return {
        "python": python_version(),
        "cuda": torch.version.cuda,
        **{name: found for name in _PACKAGES if (found := _installed(name)) is not None},
    }


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else machine()


def _stage(stage: StageConfig) -> dict[str, object]:
    return {
        "devices": list(stage.devices),
        "replicas": stage.num_replicas,
        "tensor_parallel_size": stage.tensor_parallel_size,
        "max_num_seqs": stage.max_num_seqs,
        "max_model_len": stage.max_model_len,
        "dtype": stage.dtype,
        "load_format": stage.load_format,
    }
