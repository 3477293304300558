"""The deploy file's schema: every key of section 2 of the deploy specification, its type and its range.

All keys are optional here (a layer says only what it changes) and unknown ones are errors. Values that only another
system honours are refused with a reason; names that only another system knows are in `config.ignored`.
"""

from collections.abc import Mapping
from typing import Annotated, Literal, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from antiphon.config.optimizations import SWITCHES
from antiphon.config.origin import Tree, branch, plain, whereabouts
from antiphon.config.problems import Problem, hint
from antiphon.core.errors import SamplingError
from antiphon.core.sampling import SamplingParams


def _devices(value: object) -> object:
    """`"0,1"`, `0` or `[0, 1]` to a tuple of indices."""
    parts = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else [value]
    found = []
    for part in parts:
        text = str(part).strip()
        if isinstance(part, bool) or not text.isdecimal():
            raise ValueError("devices are indices into the visible set, such as 0 or 0,1")
        found.append(int(text))
    if len(set(found)) != len(found):
        raise ValueError("a device stands twice")
    return tuple(found)


def _words(value: object) -> object:
    """Environment values: YAML reads an unquoted 1 as a number, the process wants words."""
    if not isinstance(value, Mapping):
        return value
    return {key: str(item) if isinstance(item, (int, float)) else item for key, item in value.items()}


def _media_count(value: object) -> object:
    """A count, or the reference's long form `{count: 1}`."""
    if isinstance(value, Mapping):
        unknown = [str(key) for key in value if key != "count"]
        if unknown or "count" not in value:
            raise ValueError(f"write a number or {{count: number}}{', not ' + unknown[0] if unknown else ''}")
        return value["count"]
    return value


def _no_quantization(_value: object) -> object:
    raise ValueError("quantised weights are not supported; leave it out")


def _no_reduced_vocoder(value: object) -> object:
    if value is False:
        return value
    raise ValueError("only false is supported; see optimizations.dit_precision for a faster vocoder")


Devices = Annotated[tuple[int, ...], BeforeValidator(_devices), Field(min_length=1)]
Count = Annotated[int, Field(gt=0)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Dtype = Literal["auto", "bfloat16", "float16", "float32"]
MediaCount = Annotated[int, Field(ge=0), BeforeValidator(_media_count)]
One = Literal[1]
Never = Annotated[object, BeforeValidator(_no_quantization)]
False_ = Annotated[bool, BeforeValidator(_no_reduced_vocoder)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class VideoSection(_Section):
    fps: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    num_frames: Count | None = None


class MediaIOSection(_Section):
    video: VideoSection | None = None


class MediaLimitSection(_Section):
    image: MediaCount | None = None
    audio: MediaCount | None = None
    video: MediaCount | None = None


class CompilationSection(_Section):
    """NONE turns the stage's graphs off; what else is captured is decided by `optimizations`."""

    cudagraph_mode: Literal["NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"] | None = None


class StageSection(_Section):
    devices: Devices | None = None
    num_replicas: Annotated[int, Field(ge=0)] | None = None
    tensor_parallel_size: Count | None = None
    pipeline_parallel_size: One | None = None
    data_parallel_size: One | None = None
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1)] | None = None
    kv_cache_memory_bytes: Count | None = None
    max_num_seqs: Count | None = None
    max_num_batched_tokens: Count | None = None
    max_model_len: Count | None = None
    dtype: Dtype | None = None
    quantization: Never | None = None
    load_format: Literal["auto", "dummy"] | None = None
    enforce_eager: bool | None = None
    enable_chunked_prefill: bool | None = None
    enable_prefix_caching: bool | None = None
    async_chunk: bool | None = None
    interleave_mm_strings: bool | None = None
    media_io_kwargs: MediaIOSection | None = None
    limit_mm_per_prompt: MediaLimitSection | None = None
    compilation_config: CompilationSection | None = None
    default_sampling_params: dict[str, object] | None = None
    output_connectors: dict[Annotated[str, Field(pattern=r"^to_stage_\d+$")], str] | None = None
    input_connectors: dict[Annotated[str, Field(pattern=r"^from_stage_\d+$")], str] | None = None
    env: Annotated[dict[str, str], BeforeValidator(_words)] | None = None


class ExtraSection(_Section):
    codec_chunk_frames: Count | None = None
    codec_left_context_frames: Annotated[int, Field(ge=0)] | None = None
    enable_hift_graph: bool | None = None
    enable_cfm_graph: bool | None = None
    cfm_max_graphs: Annotated[int, Field(ge=0)] | None = None
    cfm_graph_bucket_frames: Annotated[int, Field(ge=0)] | None = None
    token2wav_n_timesteps: Count | None = None
    token2wav_float16: False_ | None = None
    token2wav_trt: False_ | None = None
    token2wav_runtime_prompt_cache_size: Annotated[int, Field(ge=0)] | None = None
    token2wav_setup_cache_size: Annotated[int, Field(ge=0)] | None = None
    code2wav_bfloat16_attention_cache: bool | None = None
    code2wav_min_batch_size: Count | None = None
    code2wav_initial_batch_size: Annotated[int, Field(ge=0)] | None = None
    ref_audio_max_seconds: Seconds | None = None
    prompt_wav: Annotated[str, Field(min_length=1)] | None = None
    prompt_cache_id: Annotated[str, Field(min_length=1)] | None = None
    host: Annotated[str, Field(min_length=1)] | None = None
    port: Annotated[int, Field(ge=1, le=65535)] | None = None


class ConnectorSection(_Section):
    name: str | None = None
    extra: ExtraSection | None = None


class DuplexSection(_Section):
    """Null is a value only for the three that say so. The defaults in force are those of `DuplexSessionConfig`."""

    max_sessions: Count = 1
    idle_ttl_s: Seconds | None = None
    max_session_s: Seconds | None = None
    disconnect_grace_s: Seconds = 1.0
    reaper_interval_s: Seconds = 1.0
    resume_replay_ttl_s: Seconds = 1.0
    resume_replay_max_bytes_per_session: Count = 1
    max_pending_input_bytes_per_session: Count = 1
    max_pending_turns_per_session: Count = 1
    max_pending_output_bytes: Count = 1
    max_pending_output_events: Count = 1
    warmup_frames: int = 0
    server_vad_model_path: Annotated[str, Field(min_length=1)] | None = None


class EdgeSection(_Section):
    from_stage: Annotated[int, Field(alias="from", ge=0)]
    to_stage: Annotated[int, Field(alias="to", ge=0)]


class PlatformSection(_Section):
    stages: dict[str, StageSection] | None = None


class PlatformsSection(_Section):
    cuda: PlatformSection | None = None
    rocm: PlatformSection | None = None
    npu: PlatformSection | None = None
    xpu: PlatformSection | None = None
    musa: PlatformSection | None = None
    cpu: PlatformSection | None = None


class DeploySection(_Section):
    """The whole file. `base_config` and the removed `stage_args` are dealt with while reading."""

    pipeline: str | None = None
    async_chunk: bool | None = None
    session_mode: Literal["duplex", "turn"] | None = None
    duplex_session: DuplexSection | None = None
    enable_prefix_caching: bool | None = None
    enable_chunked_prefill: bool | None = None
    dtype: Dtype | None = None
    quantization: Never | None = None
    data_parallel_size: One | None = None
    pipeline_parallel_size: One | None = None
    connectors: dict[str, ConnectorSection] | None = None
    edges: list[EdgeSection] | None = None
    stages: dict[str, StageSection] | None = None
    platforms: PlatformsSection | None = None
    optimizations: dict[str, object] | None = None


def check_tree(tree: Tree, where: str) -> list[Problem]:
    """Check one layer's names, types and ranges; *where* names the layer for values without a place of their own."""
    problems = [*_check_switches(tree, where), *_check_sampling(tree, where)]
    try:
        DeploySection.model_validate(plain(tree))
    except ValidationError as error:
        for item in error.errors(include_url=False):
            loc = tuple(str(part) for part in item["loc"])
            place = whereabouts(tree, loc, where)
            problems.append(Problem(place, _message(loc, item["type"], item["msg"], item["input"])))
    return problems


def _message(loc: tuple[str, ...], kind: str, text: str, value: object) -> str:
    path = ".".join(part for part in loc if part != "[key]")
    if kind == "extra_forbidden":
        around = ".".join(loc[:-1])
        known = _fields_at(loc[:-1])
        noun = "explicit engine argument without an owner" if "stages" in loc[:-1] else "unknown key"
        return f"{f'{around}: ' if around else ''}{noun}: {loc[-1]!r}; {hint(loc[-1], known)}"
    reason = text.removeprefix("Value error, ")
    shown = repr(value)
    return f"{path} is {shown if len(shown) <= 60 else shown[:60] + '…'}; {reason[0].lower()}{reason[1:]}"


def _fields_at(loc: tuple[str, ...]) -> list[str]:
    """The keys the schema knows under a path."""
    kind: object = DeploySection
    for part in loc:
        section = _section_in(kind)
        if section is not None and part in section.model_fields:
            kind = section.model_fields[part].annotation
        # else: a key of a mapping, whose value type `_section_in` finds by itself
    section = _section_in(kind)
    return [field.alias or name for name, field in section.model_fields.items()] if section else []


def _section_in(kind: object) -> type[_Section] | None:
    if isinstance(kind, type) and get_origin(kind) is None and issubclass(kind, _Section):
        return kind
    return next((found for part in get_args(kind) if (found := _section_in(part))), None)


def _check_switches(tree: Tree, where: str) -> list[Problem]:
    problems = []
    for name, value in plain(branch(tree, "optimizations")).items():
        place = whereabouts(tree, ("optimizations", name), where)
        switch = SWITCHES.get(name)
        if switch is None:
            problems.append(Problem(place, f"optimizations: unknown switch {name!r}; {hint(name, SWITCHES)}"))
        elif refusal := switch.refusal(yaml_word(value, switch.choices)):
            problems.append(Problem(place, f"optimizations.{name} {refusal}"))
    return problems


def yaml_word(value: object, choices: tuple[object, ...]) -> object:
    """YAML reads an unquoted `off` as false."""
    return "off" if value is False and "off" in choices else value


def _check_sampling(tree: Tree, where: str) -> list[Problem]:
    """Each field by itself: ranges that depend on another field are checked when the stage is complete."""
    problems = []
    overlays = [("platforms", name) for name in branch(tree, "platforms")]
    for prefix in [(), *overlays]:
        for stage_id in branch(tree, *prefix, "stages"):
            path = (*prefix, "stages", stage_id, "default_sampling_params")
            for name, value in plain(branch(tree, *path)).items():
                try:
                    SamplingParams.from_mapping({"max_tokens": 1_000_000, name: value})
                except SamplingError as error:
                    problems.append(Problem(whereabouts(tree, (*path, name), where), f"{'.'.join(path)}: {error}"))
    return problems
