"""Read deploy files into trees: find them, follow `base_config`, keep every value's file and line.

The old nested spelling of a stage (`engine_args:`, `runtime:`) is flattened here, so nothing above knows of it.
"""

from importlib import resources
from pathlib import Path

import yaml

from antiphon.config.origin import Origin, OriginKind, Sourced, Tree
from antiphon.config.problems import DeployError, Problem

SHIPPED = Path(str(resources.files("antiphon.config"))) / "data" / "deploy"
NESTED_STAGE_KEYS = ("engine_args", "runtime", "engine_extras")


def shipped_names() -> list[str]:
    return sorted(path.name for path in SHIPPED.glob("*.yaml"))


def default_deploy_file(architectures: object, version: object) -> str:
    """The shipped file for a checkpoint. Raises DeployError: a 2.6 checkpoint must not be misrouted."""
    if architectures == ["MiniCPMO"] and version == "4.5":
        return "minicpmo_4_5.yaml"
    message = f"architectures {architectures!r}, version {version!r} have no deploy file; only MiniCPMO 4.5 is served"
    raise DeployError([Problem("config.json", message)])


def find_deploy_file(name: str) -> Path:
    """A bare file name (with or without .yaml) is a shipped layout first, then a path. Raises DeployError."""
    path = Path(name)
    if path.name == name:
        for candidate in (SHIPPED / name, SHIPPED / f"{name}.yaml"):
            if candidate.is_file():
                return candidate
    if path.is_file():
        return path
    raise DeployError([Problem(name, f"deploy file not found; shipped files: {', '.join(shipped_names())}")])


def read_chain(path: Path) -> list[tuple[Path, Tree]]:
    """*path* and the files beneath it through `base_config`, the lowest first. Raises DeployError."""
    chain: list[tuple[Path, Tree]] = []
    seen: list[Path] = []
    step: Path | None = path
    while step is not None:
        if step.resolve() in seen:
            loop = " -> ".join(item.name for item in [*seen, step])
            raise DeployError([Problem(str(step), f"base_config leads back to itself: {loop}")])
        seen.append(step.resolve())
        tree = read_file(step, OriginKind.BASE_FILE if chain else OriginKind.FILE)
        chain.insert(0, (step, tree))
        step = _base_of(step, tree)
    return chain


def _base_of(path: Path, tree: Tree) -> Path | None:
    node = tree.pop("base_config", None)
    if node is None or (isinstance(node, Sourced) and node.value is None):
        return None
    if not isinstance(node, Sourced) or not isinstance(node.value, str):
        raise DeployError([Problem(str(path), "base_config must be the path of a file, relative to this one")])
    base = path.parent / node.value
    if not base.is_file():
        raise DeployError([Problem(node.origin.where, f"base_config {node.value!r} not found beside {path.name}")])
    return base


def read_file(path: Path, kind: OriginKind) -> Tree:
    """One file as a tree, stages keyed by their id. Raises DeployError with file and line."""
    try:
        loader = yaml.SafeLoader(path.read_text(encoding="utf-8"))
        node = loader.get_single_node()
        if not isinstance(node, yaml.MappingNode):
            raise DeployError([Problem(str(path), "expected a mapping with `stages:` or `base_config:` at the top")])
        return _Reader(loader, path.name, kind).mapping(node)
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # no UTF-8, no such date, an alias within itself
        raise DeployError([Problem(str(path), "not valid YAML: " + " ".join(str(error).split()))]) from error


class _Reader:
    """Builds the tree of one YAML document. Leaves under `platforms:` are platform overlays."""

    def __init__(self, loader: yaml.SafeLoader, name: str, kind: OriginKind) -> None:
        self._loader = loader
        self._name = name
        self._kind = kind

    def mapping(self, node: yaml.MappingNode, kind: OriginKind | None = None) -> Tree:
        kind = kind or self._kind
        self._refuse_twins(node)
        self._loader.flatten_mapping(node)  # resolves `<<`
        tree: Tree = {}
        for key_node, value in node.value:
            key = key_node.value
            if key == "stage_args":
                raise self._error(key_node, "stage_args was removed; write `stages:` instead")
            if key == "stages":
                tree[key] = self._stages(value, kind)
            elif isinstance(value, yaml.MappingNode):
                tree[key] = self.mapping(value, OriginKind.PLATFORM if key == "platforms" else kind)
            else:
                plain = self._loader.construct_object(value, deep=True)
                tree[key] = Sourced(plain, Origin(kind, self._place(value)))
        return tree

    def _stages(self, node: yaml.Node, kind: OriginKind) -> Tree:
        if not isinstance(node, yaml.SequenceNode):
            raise self._error(node, "stages must be a list")
        stages: Tree = {}
        for item in node.value:
            if not isinstance(item, yaml.MappingNode):
                raise self._error(item, "every stage is a mapping with a stage_id")
            stage = self.mapping(item, kind)
            stage_id = stage.pop("stage_id", None)
            value = stage_id.value if isinstance(stage_id, Sourced) else None
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise self._error(item, "every stage needs its stage_id, a whole number from 0")
            if str(value) in stages:
                raise self._error(item, f"stage_id {value} stands twice")
            flatten_stage(stage, self._place(item))
            stages[str(value)] = stage
        return stages

    def _refuse_twins(self, node: yaml.MappingNode) -> None:
        seen: set[str] = set()
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise self._error(key_node, "a key must be a plain word")
            if key_node.value in seen and key_node.tag != "tag:yaml.org,2002:merge":
                raise self._error(key_node, f"{key_node.value!r} stands twice in one mapping")
            seen.add(key_node.value)

    def _place(self, node: yaml.Node) -> str:
        return f"{self._name}:{node.start_mark.line + 1}"

    def _error(self, node: yaml.Node, message: str) -> DeployError:
        return DeployError([Problem(self._place(node), message)])


def flatten_stage(stage: Tree, where: str) -> None:
    """Lift the keys of the nested spelling into the stage, in place. Raises DeployError when one stands in both."""
    for group in NESTED_STAGE_KEYS:
        nested = stage.pop(group, {})
        if isinstance(nested, Sourced):
            if nested.value is not None:
                raise DeployError([Problem(nested.origin.where or where, f"{group} must be a mapping")])
            continue
        for key, node in nested.items():
            if key in stage:
                raise DeployError([Problem(where, f"{key!r} stands both in the stage and under {group}; keep one")])
            stage[key] = node
