from dataclasses import fields, replace
from pathlib import Path

import pytest

from antiphon.config.checkpoint_files import shipped_model_config
from antiphon.config.deploy import ConnectorExtra, DeployConfig, StageConfig
from antiphon.config.load import load_deploy
from antiphon.config.optimizations import OptimizationsConfig
from antiphon.config.problems import DeployError
from antiphon.engine.audio_units import audio_slot_bytes
from antiphon.pipeline import engine_settings as module
from antiphon.pipeline.engine_settings import (
    ELSEWHERE,
    NO_EFFECT,
    EngineSettings,
    MemoryFacts,
    engine_settings,
    position_bytes,
    thread_problems,
)

MODEL = shipped_model_config()
H200 = MemoryFacts(device_bytes=140 << 30, thinker_weight_bytes=17 << 30, talker_weight_bytes=1 << 30, item_bytes=2)
CPU = MemoryFacts(device_bytes=None, thinker_weight_bytes=0, talker_weight_bytes=0, item_bytes=4)


def load(overrides: str = "", name: str = "minicpmo_4_5.yaml") -> DeployConfig:
    return load_deploy(name, stage_overrides=overrides)


def switched(**switches: object) -> DeployConfig:
    config = load()
    return replace(config, optimizations=replace(config.optimizations, **switches))  # type: ignore[arg-type]


def settings(config: DeployConfig, memory: MemoryFacts = H200) -> EngineSettings:
    return engine_settings(config, MODEL, memory)


def test_the_shipped_layout_fills_its_shares() -> None:
    found = settings(load())
    thinker, talker, code2wav = found.thinker, found.talker, found.code2wav
    assert (thinker.max_num_seqs, thinker.max_batched_tokens, thinker.max_model_len) == (16, 16_384, 40_960)
    share = 0.55 * (140 << 30) - (17 << 30) - 8 * audio_slot_bytes(MODEL.audio, 2)
    block_bytes = 16 * position_bytes(MODEL.llm, 2)
    assert 0.99 * share < thinker.kv_cache_blocks * block_bytes <= share
    assert (talker.num_slots, talker.max_positions, talker.windows) == (16, 4096, (1, 2, 4, 8, 25))
    assert (code2wav.num_slots, code2wav.num_steps, code2wav.use_tf32, code2wav.chunk_codes) == (16, 10, True, 25)
    assert thinker.use_prefix_cache
    assert talker.graph_batches == (1, 2, 4, 8, 16)


def test_sixty_four_live_sessions_share_the_cache_of_their_layout() -> None:
    thinker = settings(load(name="minicpmo_4_5_live64.yaml")).thinker
    assert (thinker.num_audio_streams, thinker.max_num_seqs, thinker.graph_batches[-1]) == (64, 64, 64)
    assert 4000 < thinker.session_positions < 5000
    assert settings(load()).thinker.session_positions == thinker.max_model_len == 40_960


def test_a_position_of_the_thinker_takes_144_kib() -> None:
    assert position_bytes(MODEL.llm, 2) == 144 << 10


def test_a_context_that_nobody_set_shrinks_to_the_cache_and_one_that_was_set_is_refused() -> None:
    assert settings(load('{"0": {"kv_cache_memory_bytes": 1073741824}}')).thinker.max_model_len == 7_280
    with pytest.raises(DeployError, match="room for 7280 tokens of cache, one sequence may have 8000"):
        settings(load('{"0": {"kv_cache_memory_bytes": 1073741824, "max_model_len": 8000}}'))
    with pytest.raises(DeployError, match="stage 0"):
        settings(load('{"0": {"kv_cache_memory_bytes": 1000000}}'))


def test_talker_rows_are_as_many_as_fit() -> None:
    config = load('{"1": {"kv_cache_memory_bytes": 1073741824}}')
    few = replace(config, duplex_session=replace(config.duplex_session, max_sessions=4))
    assert settings(few).talker.num_slots == 4
    with pytest.raises(DeployError, match=r"stage 1.*has 4 caches, duplex_session.max_sessions is 8"):
        settings(config)
    assert settings(replace(config, session_mode="turn")).talker.num_slots == 4
    with pytest.raises(DeployError, match=r"stage 1.*no room for one cache of 240 MiB"):
        settings(load('{"1": {"kv_cache_memory_bytes": 1000000}}'))


def test_on_a_cpu_caches_are_as_large_as_the_rows_need() -> None:
    config = load('{"0": {"max_model_len": 1000}}')
    assert settings(config, CPU).thinker.kv_cache_blocks == (16 + 8) * 63


def test_switches_reach_the_engines() -> None:
    found = settings(
        switched(
            talker_window_steps=1,
            talker_graph=False,
            thinker_graph=False,
            cfm_steps=4,
            cfm_graph=False,
            hift_graph=False,
            dit_precision="fp32",
            fused_attention=False,
            fused_dit=False,
            early_stop=False,
        )
    )
    thinker, talker, code2wav = found.thinker, found.talker, found.code2wav
    assert (thinker.use_graphs, thinker.use_triton, thinker.early_stop) == (False, False, False)
    assert (talker.use_graphs, talker.use_step_window, talker.windows) == (False, False, (1,))
    assert not code2wav.use_triton
    assert (code2wav.num_steps, code2wav.use_graphs, code2wav.use_hift_graph, code2wav.use_tf32) == (
        *(4, False, False),
        False,
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("talker_sampler", "host"),
        ("ngram_speculation", "adaptive"),
        ("cfm_tangent_stop", 3),
        ("adaln_table", False),
        ("dit_precision", "bf16"),
        ("cache_precision", "bf16"),
        ("hift_noise", "data"),
        ("voice_template_cache", False),
        ("first_chunk_frames", 10),
        ("chunk_frames", 50),
    ],
)
def test_what_the_engines_cannot_honour_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(DeployError, match=f"{name} is {value}"):
        settings(switched(**{name: value}))


@pytest.mark.parametrize(
    ("stage_keys", "reason"),
    [
        ('"media_io_kwargs": {"video": {"fps": 2}}', "fps is 2"),
        ('"media_io_kwargs": {"video": {"num_frames": 8}}', "num_frames is 8"),
        ('"enable_chunked_prefill": false', "enable_chunked_prefill"),
    ],
)
def test_stage_settings_against_the_models_rules_are_refused(stage_keys: str, reason: str) -> None:
    with pytest.raises(DeployError, match=reason):
        settings(load(f'{{"0": {{{stage_keys}}}}}'))


def test_one_process_has_one_device_and_no_replicas() -> None:
    assert thread_problems(load()) == []
    spread = "; ".join(str(problem) for problem in thread_problems(load(name="minicpmo_4_5_3gpu_stage1_replicas.yaml")))
    assert "num_replicas is 2" in spread
    assert "device differs" in spread
    assert "tensor_parallel_size" in str(thread_problems(load(name="minicpmo_4_5_8x4090.yaml"))[0])
    assert "env" in str(thread_problems(load('{"0": {"env": {"A": "1"}}}'))[0])


@pytest.mark.parametrize("kind", [DeployConfig, StageConfig, ConnectorExtra, OptimizationsConfig])
def test_no_setting_is_ignored(kind: type) -> None:
    source = Path(module.__file__).read_text(encoding="utf-8")
    told = {**ELSEWHERE.get(kind.__name__, {}), **NO_EFFECT.get(kind.__name__, {})}
    for field in fields(kind):
        used = f".{field.name}" in source or f'"{field.name}"' in source
        assert used or field.name in told, f"{kind.__name__}.{field.name} is neither used, refused nor explained"
    assert set(told) <= {field.name for field in fields(kind)}
