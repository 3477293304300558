"""Load a deploy configuration: files, platform overlay, flags, overrides and environment become frozen types.

Precedence, strong to weak: environment (rollback of switches) › stage overrides › command line › platform overlay ›
overlay file › base file › code defaults.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

from antiphon.config.deploy import PLATFORMS, DeployConfig
from antiphon.config.deploy_files import find_deploy_file, read_chain
from antiphon.config.env import Environment
from antiphon.config.ignored import IGNORED, Ignored, drop_ignored
from antiphon.config.layout_checks import check_layout, check_merged, check_overlay_ids, check_stage_ids
from antiphon.config.merge import merge_files, merge_overlay
from antiphon.config.origin import Origin, OriginKind, Tree, branch
from antiphon.config.overrides import FLAG, flags_layer, overrides_layer
from antiphon.config.problems import DeployError, Problem, hint
from antiphon.config.resolve import resolve, shape_of
from antiphon.config.schema import check_tree
from antiphon.config.switch_spellings import translate

DEFAULT_DEPLOY_FILE = "minicpmo_4_5.yaml"


@dataclass(frozen=True, kw_only=True)
class DeployReading:
    """What was found: the values as far as they could be resolved, and everything that stands against using them."""

    config: DeployConfig | None
    problems: tuple[Problem, ...]
    ignored: tuple[Ignored, ...]


def load_deploy(
    name: str = DEFAULT_DEPLOY_FILE,
    *,
    platform: str = "cuda",
    flags: Mapping[str, object] | None = None,
    stage_overrides: str = "",
    environment: Environment | None = None,
) -> DeployConfig:
    """The configuration in force, for starting an engine. Raises DeployError with every problem."""
    reading = read_deploy(
        name, platform=platform, flags=flags, stage_overrides=stage_overrides, environment=environment
    )
    if reading.problems or reading.config is None:
        raise DeployError(reading.problems)
    return reading.config


def read_deploy(
    name: str = DEFAULT_DEPLOY_FILE,
    *,
    platform: str = "cuda",
    flags: Mapping[str, object] | None = None,
    stage_overrides: str = "",
    environment: Environment | None = None,
) -> DeployReading:
    """Read and check without refusing, for `config show` and `config validate`.

    Args:
        name: a shipped file's name or a path.
        platform: whose overlay applies.
        flags: explicit engine flags by their names in the file; they apply to every stage.
        stage_overrides: the JSON of `--stage-overrides`; empty for none.
        environment: rollback switches; None leaves them out.
    """
    layers = _Layers(platform)
    try:
        config = layers.build(name, flags or {}, stage_overrides, environment or Environment())
    except DeployError as error:
        config = None
        layers.problems.extend(error.problems)
    return DeployReading(config=config, problems=tuple(dict.fromkeys(layers.problems)), ignored=tuple(layers.ignored))


class _Layers:
    """Puts the layers over one another and collects what is wrong with each."""

    def __init__(self, platform: str) -> None:
        self.platform = platform
        self.problems: list[Problem] = []
        self.ignored: list[Ignored] = []

    def build(self, name: str, flags: Mapping[str, object], overrides: str, environment: Environment) -> DeployConfig:
        if self.platform not in PLATFORMS:
            message = f"unknown platform {self.platform!r}; {hint(self.platform, PLATFORMS)}"
            raise DeployError([Problem("--platform", message)])
        path = find_deploy_file(name)
        chain = read_chain(path)
        for place, tree in chain:
            self._check(tree, place.name)
        merged = reduce(merge_files, (tree for _, tree in chain))
        shape = shape_of(merged, path.name)
        num_stages = len(shape.stage_names)
        platforms = branch(merged, "platforms")
        merged.pop("platforms", None)
        self.problems += check_overlay_ids(platforms, num_stages, path.name)
        overlay = branch(platforms, self.platform)
        translate(overlay)
        merged = merge_overlay(merged, overlay)
        for layer, where in (
            (flags_layer(flags, num_stages), "command line"),
            (overrides_layer(overrides, num_stages) if overrides else {}, FLAG),
        ):
            self._check(layer, where)
            merged = merge_overlay(merged, layer)
        merged = merge_overlay(merged, environment.switches_layer())
        self._note_environment(environment)
        self._refuse_runner()
        self.problems += check_stage_ids(merged, num_stages, path.name)
        if self.problems:
            raise DeployError([])
        self.problems += check_merged(merged, shape.edges, path.name)
        config = resolve(merged, shape, self.platform, path.name)
        self.problems += check_layout(config, path.name)
        return config

    def _check(self, layer: Tree, where: str) -> None:
        ignored, problems = drop_ignored(layer, where)
        self.ignored += ignored
        self.problems += problems
        self.problems += check_tree(layer, where)
        translate(layer)

    def _note_environment(self, environment: Environment) -> None:
        origin = Origin(OriginKind.ENVIRONMENT)
        for name, value in environment.ignored.items():
            self.ignored.append(Ignored(name, value, origin, IGNORED["environment"][name]))

    def _refuse_runner(self) -> None:
        """The reference refuses its second runner on two platforms; a file that asks for it there is a mistake."""
        written = [item for item in self.ignored if item.path == "model_runner"]
        if self.platform in ("npu", "xpu") and written and written[-1].value == "v2":
            message = f"model_runner v2 is not available on {self.platform}; use v1 or leave it out"
            self.problems.append(Problem(written[-1].origin.where, message))
