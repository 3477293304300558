"""vLLM-Omni's MiniCPM-o layouts load unchanged with the values of the deploy specification, section 3."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from antiphon.config.dump import rows
from antiphon.config.load import DeployReading, load_deploy, read_deploy

GOLDEN = Path(__file__).parents[2] / "data" / "deploy_golden"
OVERLAPPING = "minicpmo_4_5_8x4090_stage1_replicas"
PLATFORMS = ("cuda", "npu", "cpu")
GIB = 2**30

# file, stage -> what the table says: devices, replicas, share, rows, tokens a step, context, eager
TABLE = {
    "minicpmo_4_5": (
        ((0,), 1, 0.55, 4, 16384, None, False),
        ((0,), 1, 0.15, 4, 8192, 4096, False),
        ((0,), 1, 0.18, 4, 65536, 65536, True),
    ),
    "minicpmo_4_5_2gpu": (
        ((0,), 1, 0.90, 4, 16384, None, False),
        ((1,), 1, 0.55, 4, 8192, 4096, False),
        ((1,), 1, 0.35, 4, 65536, 65536, True),
    ),
    "minicpmo_4_5_3gpu": (
        ((0,), 1, 0.90, 4, 16384, None, False),
        ((1,), 1, 0.90, 4, 8192, 4096, False),
        ((2,), 1, 0.90, 4, 65536, 65536, True),
    ),
    "minicpmo_4_5_8x4090": (
        ((0, 1, 2, 3), 1, 0.85, 1, 4096, 4096, True),
        ((4,), 1, 0.90, 1, 8192, 4096, True),
        ((5,), 1, 0.90, 1, 65536, 65536, True),
    ),
    "minicpmo_4_5_3gpu_stage1_replicas": (
        ((0,), 1, 0.55, 4, 16384, None, False),
        ((1, 2), 2, 0.15, 4, 8192, 4096, False),
        ((0,), 1, 0.18, 4, 65536, 65536, True),
    ),
    "minicpmo_4_5_4gpu_stage1_replicas": (
        ((0,), 1, 0.55, 4, 16384, None, False),
        ((1, 2, 3), 3, 0.15, 4, 8192, 4096, False),
        ((0,), 1, 0.18, 4, 65536, 65536, True),
    ),
    OVERLAPPING: (
        ((0, 1, 2, 3), 1, 0.40, 1, 16384, 4096, True),
        ((4, 5, 6, 7), 4, 0.80, 1, 8192, 4096, True),
        ((5,), 1, 0.90, 1, 65536, 65536, True),
    ),
    "minicpmo_4_5_turn": (
        ((0,), 1, 0.55, 4, 16384, None, False),
        ((0,), 1, 0.15, 4, 8192, 4096, False),
        ((0,), 1, 0.18, 4, 65536, 65536, True),
    ),
}


@pytest.mark.parametrize("name", TABLE)
def test_a_file_has_the_values_of_the_table(name: str, reference_files: Path) -> None:
    config = read_deploy(str(reference_files / f"{name}.yaml")).config
    assert config is not None
    found = tuple(
        (
            stage.devices,
            stage.num_replicas,
            stage.gpu_memory_utilization,
            stage.max_num_seqs,
            stage.max_num_batched_tokens,
            stage.max_model_len,
            stage.enforce_eager,
        )
        for stage in config.stages
    )
    assert found == TABLE[name]
    assert config.async_chunk
    assert config.session_mode == ("turn" if name.endswith("turn") else "duplex")
    assert config.duplex_session.max_sessions == (1 if "8x4090" in name else 4)
    assert config.stages[0].tensor_parallel_size == (4 if "8x4090" in name else 1)
    assert not config.stages[0].enable_prefix_caching
    assert config.stages[2].enable_chunked_prefill is False


@pytest.mark.parametrize("name", TABLE)
def test_a_file_has_the_sampling_and_connector_of_the_specification(name: str, reference_files: Path) -> None:
    config = read_deploy(str(reference_files / f"{name}.yaml")).config
    assert config is not None
    thinker, talker, code2wav = (stage.default_sampling_params for stage in config.stages)
    penalty = 1.1 if any(word in name for word in ("2gpu", "8x4090")) or name == "minicpmo_4_5_3gpu" else 1.0
    assert (thinker.temperature, thinker.repetition_penalty, thinker.max_tokens, thinker.seed) == (0, penalty, 2048, 42)
    assert (talker.temperature, talker.top_p, talker.top_k, talker.repetition_penalty) == (0.8, 0.85, 25, 1.05)
    assert (talker.min_tokens, talker.max_tokens, talker.seed) == (50, 4096, 42)
    assert (code2wav.temperature, code2wav.max_tokens) == (0, 65536)
    extra = config.connectors["connector_of_shared_memory"].extra
    assert (extra.codec_chunk_frames, extra.codec_left_context_frames) == (25, 3)
    assert (extra.enable_hift_graph, extra.enable_cfm_graph) == (True, True)
    assert (extra.cfm_max_graphs, extra.cfm_graph_bucket_frames, extra.token2wav_n_timesteps) == (32, 16, 10)
    assert config.stages[1].output_connectors == {2: "connector_of_shared_memory"}
    assert config.stages[2].input_connectors == {1: "connector_of_shared_memory"}


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("name", TABLE)
def test_a_dump_equals_its_golden_file(name: str, platform: str, reference_files: Path) -> None:
    reading = read_deploy(str(reference_files / f"{name}.yaml"), platform=platform)
    assert reading.config is not None
    dump = {path: [value, origin] for path, value, origin in rows(reading.config)}
    golden = json.loads((GOLDEN / f"{name}.{platform}.json").read_text(encoding="utf-8"))
    assert dump == golden


def test_the_talker_cap_is_an_overlay_of_one_platform_and_replica_files_clear_it(reference_files: Path) -> None:
    one, replicas = (reference_files / f"minicpmo_4_5{end}.yaml" for end in ("", "_3gpu_stage1_replicas"))
    assert load_deploy(str(one)).stages[1].kv_cache_memory_bytes == 2 * GIB
    assert load_deploy(str(one), platform="npu").stages[1].kv_cache_memory_bytes is None
    cleared = load_deploy(str(replicas))
    assert cleared.stages[1].kv_cache_memory_bytes is None
    assert "cleared at minicpmo_4_5_3gpu_stage1_replicas.yaml:" in str(cleared.origin("stages.1.kv_cache_memory_bytes"))


@pytest.mark.parametrize("end", ["", "_2gpu", "_3gpu"])
def test_the_npu_overlay_shrinks_the_steps(end: str, reference_files: Path) -> None:
    config = load_deploy(str(reference_files / f"minicpmo_4_5{end}.yaml"), platform="npu")
    assert [stage.max_num_batched_tokens for stage in config.stages] == [8192, 8192, 65536]


def test_the_file_that_overlaps_by_its_own_values_is_refused_and_an_override_mends_it(reference_files: Path) -> None:
    path = str(reference_files / f"{OVERLAPPING}.yaml")
    (problem,) = read_deploy(path).problems
    for words in ("device 5", "1.70", "stage 1 talker replica 1 0.80", "stage 2 code2wav 0.90", "device 0"):
        assert words in problem.message
    mended = load_deploy(path, stage_overrides='{"2": {"devices": "0", "gpu_memory_utilization": 0.5}}')
    assert mended.stages[2].devices == (0,)


def test_older_and_longer_spellings_load(read: Callable[..., DeployReading]) -> None:
    reading = read(
        "active_stream_window: 1\ntrust_remote_code: true\nmodel_runner: v1\n"
        "duplex_session: {max_sessions: 4, active_stream_window: 4, completed_append_cache_size: 256}\n"
        "stages: [{stage_id: 0, skip_mm_profiling: true, limit_mm_per_prompt: {video: {count: 1, num_frames: 32}}}]"
    )
    assert not reading.problems
    assert reading.config is not None
    assert reading.config.stages[0].limit_mm_per_prompt.video == 1
    assert reading.config.origin("stages.0.limit_mm_per_prompt.video").where == "deploy.yaml:6"
    assert len(reading.ignored) == 7


def test_names_without_effect_are_listed_with_their_reasons(reference_files: Path) -> None:
    ignored = {item.path: item.reason for item in read_deploy(str(reference_files / "minicpmo_4_5.yaml")).ignored}
    assert "connectors.connector_of_shared_memory.extra.connector_get_sleep_s" in ignored
    assert "stages.2.enforce_eager" in ignored
    assert all(ignored.values())
