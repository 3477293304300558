"""How one layer of configuration lies over another (deploy specification, sections 2.5 and 2.6)."""

from antiphon.config.origin import Sourced, Tree

# Inside a stage every key is replaced, except these maps.
DEEP_STAGE_KEYS = frozenset({"default_sampling_params"})
# A platform overlay merges the environment of the stage's process too.
DEEP_OVERLAY_KEYS = DEEP_STAGE_KEYS | {"env"}


def merge_files(lower: Tree, upper: Tree) -> Tree:
    """An overlay file over its base. Fold a chain from the base up: a null that clears a map makes the order matter."""
    merged = dict(lower)
    for key, node in upper.items():
        below = lower.get(key)
        if not isinstance(node, dict) or not isinstance(below, dict) or key == "duplex_session":
            merged[key] = node
        elif key == "stages":
            merged[key] = _merge_stages(below, node, DEEP_STAGE_KEYS)
        elif key == "platforms":
            merged[key] = _merge_platforms(below, node)
        elif key in ("connectors", "optimizations"):
            merged[key] = merge_deep(below, node)
        else:
            merged[key] = node
    return merged


def merge_overlay(lower: Tree, upper: Tree) -> Tree:
    """A platform overlay, the command line's flags, or stage overrides over everything weaker."""
    merged = merge_files(lower, {key: node for key, node in upper.items() if key != "stages"})
    stages, below = upper.get("stages"), lower.get("stages")
    if isinstance(stages, dict) and isinstance(below, dict):
        merged["stages"] = _merge_stages(below, stages, DEEP_OVERLAY_KEYS)
    return merged


def merge_deep(lower: Tree, upper: Tree) -> Tree:
    merged = dict(lower)
    for key, node in upper.items():
        below = lower.get(key)
        merged[key] = merge_deep(below, node) if isinstance(node, dict) and isinstance(below, dict) else node
    return merged


def _merge_stages(lower: Tree, upper: Tree, deep: frozenset[str]) -> Tree:
    merged = dict(lower)
    for stage_id, stage in upper.items():
        below = lower.get(stage_id)
        merged[stage_id] = (
            _merge_stage(below, stage, deep) if isinstance(stage, dict) and isinstance(below, dict) else stage
        )
    return merged


def _merge_stage(lower: Tree, upper: Tree, deep: frozenset[str]) -> Tree:
    merged = dict(lower)
    for key, node in upper.items():
        below = lower.get(key)
        both_maps = isinstance(node, dict) and isinstance(below, dict)
        merged[key] = {**below, **node} if both_maps and key in deep else node  # type: ignore[dict-item]
    return merged


def _merge_platforms(lower: Tree, upper: Tree) -> Tree:
    merged = dict(lower)
    for platform, node in upper.items():
        below = lower.get(platform)
        if isinstance(node, Sourced) or isinstance(below, Sourced) or below is None:
            merged[platform] = node
            continue
        stages, over = below.get("stages", {}), node.get("stages", {})
        if isinstance(stages, dict) and isinstance(over, dict):
            merged[platform] = {**below, **node, "stages": _merge_stages(stages, over, DEEP_OVERLAY_KEYS)}
        else:
            merged[platform] = {**below, **node}
    return merged
