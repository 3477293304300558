"""Where the flow model's sizes come from: a checkpoint's `flow.yaml`, or the real values shipped with the package."""

from importlib.resources import as_file
from pathlib import Path

from antiphon.config.checkpoint import FlowConfig
from antiphon.config.checkpoint_files import SHIPPED, TOKEN2WAV
from antiphon.config.flow_yaml import load_flow_config
from antiphon.core.errors import CheckpointError

FLOW_YAML = TOKEN2WAV / "flow.yaml"


def read_flow_config(folder: Path) -> FlowConfig:
    """Sizes of the flow model in a checkpoint folder."""
    path = folder / FLOW_YAML
    if not path.is_file():
        raise CheckpointError(f"{path}: no such file; speech needs it (text alone does not: --modalities text)")
    return load_flow_config(path)


def shipped_flow_config() -> FlowConfig:
    """Sizes of the real flow model."""
    with as_file(SHIPPED / "flow.yaml") as path:
        return load_flow_config(path)
