"""Which layer wins, and that every value says so."""

from collections.abc import Callable
from itertools import product

import pytest

from antiphon.config.env import Environment
from antiphon.config.load import DeployReading, read_deploy
from antiphon.config.origin import OriginKind

Read = Callable[..., DeployReading]
WRITERS = ("base", "file", "platform", "flag", "override")
KINDS = {
    "base": OriginKind.BASE_FILE,
    "file": OriginKind.FILE,
    "platform": OriginKind.PLATFORM,
    "flag": OriginKind.FLAG,
    "override": OriginKind.STAGE_OVERRIDE,
}
BASE = """
connectors: {{shm: {{name: SharedMemoryConnector}}}}
stages:
  - {{stage_id: 0, gpu_memory_utilization: 0.5{}}}
  - {{stage_id: 1, gpu_memory_utilization: 0.2, output_connectors: {{to_stage_2: shm}}}}
  - {{stage_id: 2, gpu_memory_utilization: 0.2, input_connectors: {{from_stage_1: shm}}}}
"""


@pytest.mark.parametrize("present", list(product([False, True], repeat=len(WRITERS))))
def test_the_strongest_layer_that_speaks_wins(present: tuple[bool, ...], write: Callable[..., str]) -> None:
    speaks = dict(zip(WRITERS, present, strict=True))
    write(BASE.format(", max_num_seqs: 10" if speaks["base"] else ""), "base.yaml")
    text = "base_config: base.yaml\n"
    text += "stages: [{stage_id: 0, max_num_seqs: 11}]\n" if speaks["file"] else ""
    text += "platforms: {cuda: {stages: [{stage_id: 0, max_num_seqs: 12}]}}\n" if speaks["platform"] else ""
    reading = read_deploy(
        write(text),
        flags={"max_num_seqs": 13} if speaks["flag"] else {},
        stage_overrides='{"0": {"max_num_seqs": 14}}' if speaks["override"] else "",
    )
    assert not reading.problems
    assert reading.config is not None
    winner = max((index for index, speaking in enumerate(present) if speaking), default=None)
    assert reading.config.stages[0].max_num_seqs == (4 if winner is None else 10 + winner)
    kind = OriginKind.CODE if winner is None else KINDS[WRITERS[winner]]
    assert reading.config.origin("stages.0.max_num_seqs").kind is kind


def test_flags_apply_to_every_stage_and_overrides_to_one(read: Read) -> None:
    reading = read(
        "", flags={"max_num_seqs": 2, "enable_prefix_caching": False}, stage_overrides='{"1": {"max_num_seqs": 3}}'
    )
    assert reading.config is not None
    assert [stage.max_num_seqs for stage in reading.config.stages] == [2, 3, 2]
    assert not reading.config.stages[0].enable_prefix_caching


def test_the_chunk_flag_beats_a_stage_of_the_file(read: Read) -> None:
    text = "stages: [{stage_id: 0, async_chunk: true}, {stage_id: 1, async_chunk: true}]"
    config = read(text, flags={"async_chunk": False}).config
    assert config is not None
    assert [config.async_chunk, *(stage.async_chunk for stage in config.stages)] == [False] * 4


def test_a_null_clears_a_weaker_value_and_says_where(read: Read) -> None:
    config = read(
        "stages: [{stage_id: 0, gpu_memory_utilization: null}, {stage_id: 1, devices: 1}, {stage_id: 2, devices: 2}]"
    ).config
    assert config is not None
    assert config.stages[0].gpu_memory_utilization == 0.9
    assert str(config.origin("stages.0.gpu_memory_utilization")) == "code default (cleared at deploy.yaml:2)"


def test_sampling_merges_by_field_and_other_maps_are_replaced(read: Read) -> None:
    config = read(
        "stages: [{stage_id: 0, env: {A: x}, default_sampling_params: {seed: 7}, limit_mm_per_prompt: {image: 3}}]\n"
        "platforms: {cuda: {stages: [{stage_id: 0, env: {B: 1}, limit_mm_per_prompt: {video: {count: 1}}}]}}",
        stage_overrides='{"0": {"default_sampling_params": {"temperature": 0.5}}}',
    ).config
    assert config is not None
    stage = config.stages[0]
    assert (stage.default_sampling_params.seed, stage.default_sampling_params.temperature) == (7, 0.5)
    assert stage.env == {"A": "x", "B": "1"}
    assert (stage.limit_mm_per_prompt.image, stage.limit_mm_per_prompt.video) == (None, 1)


def test_duplex_session_is_replaced_as_a_whole(write: Callable[..., str]) -> None:
    write(BASE.format("") + "duplex_session: {max_sessions: 9, idle_ttl_s: null}", "base.yaml")
    base = read_deploy(write("base_config: base.yaml\n")).config
    assert base is not None
    assert (base.duplex_session.max_sessions, base.duplex_session.idle_ttl_s) == (9, None)
    over = read_deploy(write("base_config: base.yaml\nduplex_session: {warmup_frames: -1}")).config
    assert over is not None
    assert (over.duplex_session.max_sessions, over.duplex_session.idle_ttl_s) == (1, 300.0)


def test_the_legacy_nested_spelling_is_flattened(read: Read) -> None:
    text = "stages: [{stage_id: 0, engine_args: {max_num_seqs: 2}, runtime: {devices: '3'}}]"
    config = read(text, stage_overrides='{"0": {"engine_args": {"max_model_len": 99}}}').config
    assert config is not None
    assert (config.stages[0].max_num_seqs, config.stages[0].devices, config.stages[0].max_model_len) == (2, (3,), 99)


def test_old_spellings_and_switches_never_disagree(read: Read) -> None:
    old = "connectors: {shm: {extra: {enable_cfm_graph: false, codec_chunk_frames: 50, token2wav_n_timesteps: 4}}}\n"
    config = read(old + "stages: [{stage_id: 0, enforce_eager: true}]").config
    assert config is not None
    switches = config.optimizations
    assert (switches.cfm_graph, switches.chunk_frames, switches.first_chunk_frames) == (False, 50, 50)
    assert (switches.cfm_steps, switches.thinker_graph, switches.talker_graph) == (4, False, True)
    config = read(old + "optimizations: {cfm_graph: true, first_chunk_frames: 5}").config
    assert config is not None
    assert config.connectors["shm"].extra.enable_cfm_graph
    assert (config.optimizations.first_chunk_frames, config.optimizations.chunk_frames) == (5, 50)


def test_a_stronger_layers_old_spelling_beats_a_weaker_layers_switch(read: Read) -> None:
    config = read("optimizations: {talker_graph: true, thinker_graph: true}", flags={"enforce_eager": True}).config
    assert config is not None
    assert not config.optimizations.talker_graph
    assert config.origin("optimizations.talker_graph").where == "--enforce-eager"
    config = read(
        "stages: [{stage_id: 1, enforce_eager: true}]",
        stage_overrides='{"1": {"compilation_config": {"cudagraph_mode": "FULL"}, "enforce_eager": null}}',
    ).config
    assert config is not None
    assert config.optimizations.talker_graph


def test_a_rollback_variable_beats_everything(read: Read) -> None:
    config = read(
        "optimizations: {cfm_graph: true}\nconnectors: {shm: {extra: {enable_cfm_graph: true}}}",
        environment=Environment(switches={"cfm_graph": False}),
    ).config
    assert config is not None
    assert not config.optimizations.cfm_graph
    assert not config.connectors["shm"].extra.enable_cfm_graph
    assert str(config.origin("optimizations.cfm_graph")) == "environment (ANTIPHON_CFM_GRAPH)"


def test_an_unquoted_off_is_the_word(read: Read) -> None:
    config = read("optimizations: {ngram_speculation: off}").config
    assert config is not None
    assert config.optimizations.ngram_speculation == "off"


def test_a_template_of_devices_serves_every_replica_and_a_pool_is_split(read: Read) -> None:
    config = read("stages: [{stage_id: 1, num_replicas: 2, devices: '1,2'}]").config
    assert config is not None
    assert config.stages[1].replica_devices() == ((1,), (2,))
    config = read("stages: [{stage_id: 1, num_replicas: 2, devices: [4]}, {stage_id: 0, num_replicas: 0}]").config
    assert config is not None
    assert config.stages[1].replica_devices() == ((4,), (4,))
    assert config.stages[0].replica_devices() == ()
