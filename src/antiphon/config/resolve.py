"""From the merged tree to frozen types: code defaults are filled in here, and every value's origin is kept."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from antiphon.config.deploy import (
    PIPELINES,
    ConnectorConfig,
    ConnectorExtra,
    DeployConfig,
    DuplexSessionConfig,
    MediaIO,
    MediaLimits,
    PipelineShape,
    StageConfig,
    VideoIO,
)
from antiphon.config.optimizations import SWITCHES, OptimizationsConfig
from antiphon.config.origin import Origin, OriginKind, Sourced, Tree, branch, grow, leaves, plain
from antiphon.config.problems import DeployError, Problem, hint
from antiphon.config.schema import DeploySection, StageSection, yaml_word
from antiphon.config.switch_spellings import write_back
from antiphon.core.errors import SamplingError
from antiphon.core.sampling import DEFAULT_STAGE_PARAMS, SamplingParams, check_stage

T = TypeVar("T")

_CODE = Origin(OriginKind.CODE)
# What a stage takes when neither it nor the pipeline says so. A share suits one stage alone on its device.
_SHARE = 0.9
_SEQS = 4
_BATCHED_TOKENS = (16_384, 8_192, 65_536)
_MODEL_LEN = (None, 4_096, 65_536)  # tokens; the Talker's is a limit of the model
_PIPELINE_WIDE = ("async_chunk", "dtype", "enable_chunked_prefill")


def shape_of(merged: Tree, where: str) -> PipelineShape:
    """The registered pipeline. Raises DeployError for an unknown one."""
    node = merged.get("pipeline")
    name = node.value if isinstance(node, Sourced) and node.value is not None else "minicpmo_4_5"
    if not isinstance(name, str) or name not in PIPELINES:
        place = node.origin.where if isinstance(node, Sourced) else where
        raise DeployError([Problem(place, f"pipeline {name!r} is not registered; {hint(str(name), PIPELINES)}")])
    return PIPELINES[name]


def resolve(merged: Tree, shape: PipelineShape, platform: str, where: str) -> DeployConfig:
    """Build the configuration in force. Raises DeployError for sampling values that do not fit their stage."""
    origins: dict[str, Origin] = {}
    switches = _switches(branch(merged, "optimizations"))
    _note(branch(merged, "optimizations"), "optimizations.", origins)
    write_back(merged, switches, origins, _CODE)
    _spread_pipeline_settings(merged, len(shape.stage_names))
    _note(merged, "", origins)
    origins["platform"] = Origin(OriginKind.CODE, "the machine's, or --platform")
    section = DeploySection.model_validate(plain(merged))
    stages = section.stages or {}
    return DeployConfig(
        pipeline=shape.name,
        platform=platform,
        session_mode=section.session_mode or "turn",
        async_chunk=_given(section.async_chunk, True),
        stages=tuple(
            _stage(stage_id, name, stages[str(stage_id)], where) for stage_id, name in enumerate(shape.stage_names)
        ),
        connectors={
            name: ConnectorConfig(name=item.name or "", extra=_fill(ConnectorExtra(), item.extra))
            for name, item in (section.connectors or {}).items()
        },
        duplex_session=replace(DuplexSessionConfig(), **_written(section.duplex_session)),
        optimizations=switches,
        origins=origins,
    )


def _stage(stage_id: int, name: str, section: StageSection, where: str) -> StageConfig:
    limits, media = section.limit_mm_per_prompt, section.media_io_kwargs
    return StageConfig(
        stage_id=stage_id,
        name=name,
        devices=_given(section.devices, (0,)),
        num_replicas=_given(section.num_replicas, 1),
        tensor_parallel_size=_given(section.tensor_parallel_size, 1),
        gpu_memory_utilization=_given(section.gpu_memory_utilization, _SHARE),
        kv_cache_memory_bytes=section.kv_cache_memory_bytes,
        max_num_seqs=_given(section.max_num_seqs, _SEQS),
        max_num_batched_tokens=_given(section.max_num_batched_tokens, _BATCHED_TOKENS[stage_id]),
        max_model_len=_given(section.max_model_len, _MODEL_LEN[stage_id]),
        dtype=_given(section.dtype, "auto"),
        load_format=_given(section.load_format, "auto"),
        enforce_eager=_given(section.enforce_eager, False),
        enable_chunked_prefill=_given(section.enable_chunked_prefill, stage_id == 0),
        enable_prefix_caching=_given(section.enable_prefix_caching, stage_id == 0),
        async_chunk=_given(section.async_chunk, True),
        interleave_mm_strings=_given(section.interleave_mm_strings, False),
        media_io_kwargs=MediaIO(video=_fill(VideoIO(), media.video if media else None)),
        limit_mm_per_prompt=_fill(MediaLimits(), limits),
        default_sampling_params=_sampling(stage_id, name, section.default_sampling_params or {}, where),
        output_connectors=_by_stage(section.output_connectors),
        input_connectors=_by_stage(section.input_connectors),
        env=section.env or {},
    )


def _sampling(stage_id: int, name: str, values: Mapping[str, object], where: str) -> SamplingParams:
    defaults = DEFAULT_STAGE_PARAMS[stage_id]
    own = {item.name: getattr(defaults, item.name) for item in fields(defaults)}
    try:
        params = SamplingParams.from_mapping({**own, **values})
        check_stage(name, params)
    except SamplingError as error:
        raise DeployError([Problem(where, f"stages.{stage_id}.default_sampling_params: {error}")]) from error
    return params


def _switches(tree: Tree) -> OptimizationsConfig:
    """The values were checked layer by layer."""
    values: dict[str, Any] = {
        name: yaml_word(value, SWITCHES[name].choices) for name, value in plain(tree).items() if name in SWITCHES
    }
    return OptimizationsConfig(**values)


def _spread_pipeline_settings(merged: Tree, num_stages: int) -> None:
    """Write pipeline-wide settings into the stages that do not have their own, with their origin."""
    for stage_id in range(num_stages):
        stage = grow(merged, "stages", str(stage_id))
        # Only the Thinker shares prefixes.
        names = (*_PIPELINE_WIDE, "enable_prefix_caching") if stage_id == 0 else _PIPELINE_WIDE
        for name in names:
            own, wide = stage.get(name), merged.get(name)
            is_unset = own is None or (isinstance(own, Sourced) and own.value is None)
            if is_unset and isinstance(wide, Sourced):
                stage[name] = wide


def _note(tree: Tree, prefix: str, origins: dict[str, Origin]) -> None:
    for written, leaf in leaves(tree, prefix):
        path = written.removesuffix(".count")  # the long form of a media limit
        is_cleared = leaf.value is None and not path.startswith("duplex_session.")
        origins[path] = Origin(OriginKind.CODE, f"cleared at {leaf.origin.where}") if is_cleared else leaf.origin


def _given(value: T | None, default: T) -> T:
    return default if value is None else value


def _written(section: Any) -> dict[str, Any]:
    """The fields of a pydantic section that were written."""
    return {name: getattr(section, name) for name in section.model_fields_set} if section is not None else {}


def _fill(defaults: T, section: Any) -> T:
    known = {item.name for item in fields(defaults)}  # type: ignore[arg-type]
    return replace(defaults, **{name: value for name, value in _written(section).items() if name in known})  # type: ignore[type-var]


def _by_stage(section: dict[str, str] | None) -> dict[int, str]:
    """`to_stage_2` to 2."""
    return {int(key.rsplit("_", 1)[1]): name for key, name in (section or {}).items()}
