"""Every shipped deploy file loads on every platform, and the type in force stays free of pydantic and YAML."""

import subprocess
import sys
from pathlib import Path

import pytest

from antiphon.config.deploy import PLATFORMS
from antiphon.config.deploy_files import SHIPPED, shipped_names
from antiphon.config.load import load_deploy

# file -> GPUs it needs
LAYOUTS = {
    "cpu.yaml": 1,
    "minicpmo_4_5.yaml": 1,
    "minicpmo_4_5_2gpu.yaml": 2,
    "minicpmo_4_5_3gpu.yaml": 3,
    "minicpmo_4_5_3gpu_stage1_replicas.yaml": 3,
    "minicpmo_4_5_4gpu_stage1_replicas.yaml": 4,
    "minicpmo_4_5_8x4090.yaml": 6,
    "minicpmo_4_5_8x4090_stage1_replicas.yaml": 8,
    "minicpmo_4_5_live64.yaml": 1,
    "minicpmo_4_5_turn.yaml": 1,
}


def test_the_layouts_are_all_there() -> None:
    assert shipped_names() == sorted(LAYOUTS)


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("name", LAYOUTS)
def test_a_shipped_file_loads(name: str, platform: str) -> None:
    config = load_deploy(name, platform=platform)
    devices = {device for stage in config.stages for device in stage.devices}
    assert devices == set(range(LAYOUTS[name]))
    assert config.session_mode == ("turn" if name.endswith("turn.yaml") else "duplex")
    assert all(
        len(replica) == stage.tensor_parallel_size for stage in config.stages for replica in stage.replica_devices()
    )
    assert config.duplex_session.max_sessions <= config.stages[0].max_num_seqs


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.yaml")), ids=lambda path: path.name)
def test_a_shipped_file_says_what_it_is_for(path: Path) -> None:
    assert path.read_text(encoding="utf-8").startswith("# ")


def test_the_type_in_force_needs_the_standard_library_only() -> None:
    code = "import sys, antiphon.config.deploy; sys.exit('pydantic' in sys.modules or 'yaml' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
