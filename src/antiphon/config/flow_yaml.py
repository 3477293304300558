"""Read `flow.yaml` as data: it is HyperPyYAML, whose constructor tags would otherwise build objects."""

from pathlib import Path
from typing import Any

import yaml

from antiphon.config.checkpoint import FlowConfig, parse_flow_config
from antiphon.core.errors import CheckpointError


class _DataLoader(yaml.SafeLoader):
    """A safe loader that takes `!new:package.Class` mappings for plain mappings; nothing is ever constructed."""


def _tagged_as_data(loader: yaml.SafeLoader, _suffix: str, node: yaml.Node) -> Any:
    if isinstance(node, yaml.MappingNode):
        return loader.construct_mapping(node, deep=True)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    assert isinstance(node, yaml.ScalarNode)
    return loader.construct_scalar(node)


_DataLoader.add_multi_constructor("!", _tagged_as_data)


def load_flow_config(path: Path) -> FlowConfig:
    """Load the flow model's sizes. Raises CheckpointError with file and line."""
    try:
        # The loader derives from SafeLoader and adds data constructors only.
        raw = yaml.load(path.read_text(encoding="utf-8"), Loader=_DataLoader)
    except yaml.YAMLError as error:
        raise CheckpointError(f"{path}: not valid YAML: {error}".replace("\n", " ")) from error
    if not isinstance(raw, dict):
        raise CheckpointError(f"{path}: expected a mapping at the top")
    return parse_flow_config(raw, str(path))
