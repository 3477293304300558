"""Deploy files of the tests: copies with the reference's layouts, and small ones written by each test."""

from collections.abc import Callable
from pathlib import Path

import pytest

from antiphon.config.load import DeployReading, read_deploy

THREE_STAGES = """
connectors: {shm: {name: SharedMemoryConnector}}
stages:
  - {stage_id: 0, gpu_memory_utilization: 0.5}
  - {stage_id: 1, gpu_memory_utilization: 0.2, output_connectors: {to_stage_2: shm}}
  - {stage_id: 2, gpu_memory_utilization: 0.2, input_connectors: {from_stage_1: shm}}
"""


@pytest.fixture(scope="session")
def reference_files() -> Path:
    return Path(__file__).parents[2] / "data" / "deploy_vllm_omni"


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    """Write a deploy file and return its path."""

    def to_file(text: str, name: str = "deploy.yaml") -> str:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    return to_file


@pytest.fixture
def read(write: Callable[..., str]) -> Callable[..., DeployReading]:
    """Read *text* over a sound three-stage base."""

    def over_base(text: str, **kwargs: object) -> DeployReading:
        write(THREE_STAGES, "base.yaml")
        return read_deploy(write(f"base_config: base.yaml\n{text}"), **kwargs)  # type: ignore[arg-type]

    return over_base
