"""The one table of configuration names that are accepted and have no effect here, each with its reason.

`antiphon config show` lists those a file uses. A name that is neither here nor in the schema is an error.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from antiphon.config.origin import Origin, Sourced, Tree, branch, leaves
from antiphon.config.problems import Problem


@dataclass(frozen=True)
class Ignored:
    """One ignored value of a file: its path, its value as written, and why it has no effect."""

    path: str
    value: object
    origin: Origin
    reason: str


_ENGINE_OF_ITS_OWN = "the device loop decides; there is no second scheduler to choose"
_NPU = "Ascend graphs of the reference; no Ascend runner is built"
_NO_WAITING = "read by no code of the reference either: a ready chunk is announced, nobody polls"
_NO_TENSORRT = "no effect without token2wav_trt"
_OTHER_MODEL = "another model's stage"
_TEXT_SHAPE = "text is always detokenised where it is read, special tokens never appear in it"
_SHORT_PREFILL = "only the Thinker's prefill is long enough to be cut"
_PROFILE_ONLY = "sizes the reference's start-up profiling; memory is measured here with real shapes"

# A scope is where a name may stand: at the top, in a stage, in a connector's `extra`, …
IGNORED: dict[str, dict[str, str]] = {
    "top": {
        "trust_remote_code": "code of a checkpoint is never run",
        "model_runner": "there is one runner",
        "distributed_executor_backend": "one worker process per rank, always",
        "custom_voice_dir": "not used by this model",
        "active_stream_window": "left the reference with 0.30.0; every admitted session is active",
    },
    "stage": {
        "trust_remote_code": "code of a checkpoint is never run",
        "distributed_executor_backend": "one worker process per rank, always",
        "async_scheduling": _ENGINE_OF_ITS_OWN,
        "mm_processor_cache_gb": "features of repeated media are kept by the prefix cache",
        "skip_mm_profiling": _PROFILE_ONLY,
        "additional_config": _NPU,
        "code2wav_enable_npu_graph": _NPU,
        "code2wav_max_npu_graphs": _NPU,
        "profiler_config": "profiles are taken by the benchmark command",
        "disable_hybrid_kv_cache_manager": "there is one kind of cache per stage",
        "default_pooling_params": _OTHER_MODEL,
        "subtalker_sampling_params": _OTHER_MODEL,
    },
    # Recorded, but kept: the value is shown with the stage, and has no effect in these stages.
    "talker": {"enable_chunked_prefill": _SHORT_PREFILL},
    "code2wav": {
        "enable_chunked_prefill": _SHORT_PREFILL,
        "enforce_eager": "the reference captures this stage's graphs all the same; cfm_graph and hift_graph decide",
        "compilation_config": "cfm_graph and hift_graph decide",
    },
    "sampling": {
        "detokenize": _TEXT_SHAPE,
        "skip_special_tokens": _TEXT_SHAPE,
        "spaces_between_special_tokens": _TEXT_SHAPE,
    },
    "extra": {
        "connector_get_sleep_s": _NO_WAITING,
        "connector_get_max_wait_first_chunk": _NO_WAITING,
        "connector_get_max_wait": _NO_WAITING,
        "hift_graph_capture_batch_sizes": "batch sizes to capture follow max_num_seqs of the code2wav stage",
        "token2wav_trt_dtype": _NO_TENSORRT,
        "token2wav_trt_max_batch": _NO_TENSORRT,
    },
    "duplex_session": {
        "active_stream_window": "left the reference with 0.30.0; every admitted session is active",
        "completed_append_cache_size": "unused by the reference too",
    },
    "media_limit": dict.fromkeys(("num_frames", "width", "height", "length"), _PROFILE_ONLY),
    "environment": {
        "VLLM_OMNI_EVENT_DRIVEN_ORCH": _ENGINE_OF_ITS_OWN,
        "VLLM_OMNI_ORCH_MONITOR_PATH": "timelines are written by --trace",
        "VLLM_OMNI_REPLICA_ID": "internal to the reference",
        "VLLM_WORKER_MULTIPROC_METHOD": "workers are always spawned",
        "MINICPMO_TOKEN2WAV_TRT": "no TensorRT here; see optimizations.dit_precision",
        "MINICPMO_TOKEN2WAV_TRT_DTYPE": _NO_TENSORRT,
        "MINICPMO_TOKEN2WAV_TRT_CACHE": _NO_TENSORRT,
        "ASCEND_LAUNCH_BLOCKING": _NPU,
    },
}


_KEPT = {"talker": "1", "code2wav": "2"}  # scope to stage id


def _positive(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, (int, float)) and value > 0


# Ignored or not, a value the reference refuses is a mistake of the file.
_CHECKS: dict[tuple[str, str], tuple[Callable[[object], bool], str]] = {
    ("top", "model_runner"): (lambda value: value in ("v1", "v2"), "allowed: v1, v2"),
    ("duplex_session", "completed_append_cache_size"): (_positive, "it must be positive"),
}


def drop_ignored(tree: Tree, where: str) -> tuple[list[Ignored], list[Problem]]:
    """Take the ignored names out of *tree*, in place."""
    found: list[Ignored] = []
    problems: list[Problem] = []
    for scope, prefix, section in _sections(tree):
        for name in [key for key in section if key in IGNORED[scope]]:
            node = section[name] if scope in _KEPT else section.pop(name)
            values = [("", node)] if isinstance(node, Sourced) else [(f".{path}", leaf) for path, leaf in leaves(node)]
            for path, leaf in values:
                found.append(Ignored(f"{prefix}{name}{path}", leaf.value, leaf.origin, IGNORED[scope][name]))
                check = _CHECKS.get((scope, name))
                if check and leaf.value is not None and not check[0](leaf.value):
                    place = leaf.origin.where or where
                    problems.append(Problem(place, f"{prefix}{name} is {leaf.value!r}; {check[1]}"))
    return found, problems


def _sections(tree: Tree) -> Iterator[tuple[str, str, Tree]]:
    """Every mapping of *tree* that has a scope, with its path prefix."""
    yield "top", "", tree
    yield "duplex_session", "duplex_session.", branch(tree, "duplex_session")
    for name in branch(tree, "connectors"):
        yield "extra", f"connectors.{name}.extra.", branch(tree, "connectors", name, "extra")
    yield from _stage_sections(tree, "")
    for name in branch(tree, "platforms"):
        yield from _stage_sections(branch(tree, "platforms", name), f"platforms.{name}.")


def _stage_sections(tree: Tree, prefix: str) -> Iterator[tuple[str, str, Tree]]:
    for stage_id in branch(tree, "stages"):
        stage = branch(tree, "stages", stage_id)
        inner = f"{prefix}stages.{stage_id}."
        yield "stage", inner, stage
        for scope, only in _KEPT.items():
            if stage_id == only:
                yield scope, inner, stage
        yield "sampling", f"{inner}default_sampling_params.", branch(stage, "default_sampling_params")
        for kind in branch(stage, "limit_mm_per_prompt"):
            limit = branch(stage, "limit_mm_per_prompt", kind)
            yield "media_limit", f"{inner}limit_mm_per_prompt.{kind}.", limit
