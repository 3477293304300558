"""Layers from the command line: engine flags for every stage, and `--stage-overrides` (specification, section 6)."""

import json
from collections.abc import Mapping

from antiphon.config.deploy import THINKER_KEYS
from antiphon.config.deploy_files import flatten_stage
from antiphon.config.ignored import IGNORED
from antiphon.config.origin import Origin, OriginKind, Tree, grow, source
from antiphon.config.problems import DeployError, Problem, hint
from antiphon.config.schema import DeploySection, StageSection

FLAG = "--stage-overrides"
# A stage's own value would win over the pipeline's, so an explicit flag is written to both.
_TOP_LEVEL_TOO = frozenset({"async_chunk"})


_SECTIONS = frozenset({"stages", "platforms", "connectors", "edges", "duplex_session", "optimizations"})
_TOP_LEVEL = (DeploySection.model_fields.keys() | IGNORED["top"].keys()) - _SECTIONS


def flags_layer(flags: Mapping[str, object], num_stages: int) -> Tree:
    """Explicit engine flags, by their names in the file. A stage's key goes to every stage, others to the top.

    Raises DeployError for an unknown name.
    """
    layer: Tree = {}
    for name, value in flags.items():
        origin = Origin(OriginKind.FLAG, "--" + name.replace("_", "-"))
        is_stage_key = name in StageSection.model_fields or name in IGNORED["stage"]
        if not is_stage_key and name not in _TOP_LEVEL:
            known = {*StageSection.model_fields, *IGNORED["stage"], *_TOP_LEVEL}
            raise DeployError([Problem(origin.where, f"no such engine flag; {hint(name, known)}")])
        if not is_stage_key or name in _TOP_LEVEL_TOO:
            layer.update(source({name: value}, origin))
        for stage_id in range(num_stages if is_stage_key else 0):
            if stage_id == 0 or name not in THINKER_KEYS:
                grow(layer, "stages", str(stage_id)).update(source({name: value}, origin))
    return layer


def overrides_layer(text: str, num_stages: int) -> Tree:
    """Parse the JSON of `--stage-overrides`. Raises DeployError."""
    try:
        parsed = json.loads(text, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise _error(f"not valid JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise _error('expected an object such as {"0": {"gpu_memory_utilization": 0.5}}')
    layer: Tree = {}
    for key, values in parsed.items():
        if not (key.isascii() and key.isdigit()):
            raise _error(f"key {key!r} is not a stage id; stage ids are 0 to {num_stages - 1}")
        stage_id = int(key)
        if stage_id >= num_stages:
            raise _error(f"there is no stage {stage_id}; stage ids are 0 to {num_stages - 1}")
        if not isinstance(values, dict):
            raise _error(f"stage {stage_id}: expected an object of stage keys, got {values!r}")
        stage = grow(layer, "stages", str(stage_id))
        stage.update(source(values, Origin(OriginKind.STAGE_OVERRIDE, FLAG)))
        flatten_stage(stage, FLAG)
    return layer


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _error("a key stands twice in one object")
    return found


def _error(message: str) -> DeployError:
    return DeployError([Problem(FLAG, message)])
