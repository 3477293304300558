"""Every validation message of the deploy specification, section 11, that needs no weights."""

from collections.abc import Callable

import pytest

from antiphon.config.deploy_files import default_deploy_file
from antiphon.config.layout_checks import check_visible
from antiphon.config.load import DeployReading, load_deploy, read_deploy
from antiphon.config.problems import DeployError

Read = Callable[..., DeployReading]


def only(reading: DeployReading) -> str:
    assert len(reading.problems) == 1, [str(problem) for problem in reading.problems]
    return str(reading.problems[0])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("pipeline: minicpmo_4_6", "'minicpmo_4_6' is not registered; did you mean 'minicpmo_4_5'?"),
        ("model_runner: v3", "model_runner is 'v3'; allowed: v1, v2"),
        ("session_mode: duplexx", "session_mode is 'duplexx'; input should be 'duplex' or 'turn'"),
        ("sesion_mode: turn", "unknown key: 'sesion_mode'; did you mean 'session_mode'?"),
        ("stages: [{stage_id: 0, gpu_memory_utilisation: 0.3}]", "did you mean 'gpu_memory_utilization'?"),
        ("stages: [{stage_id: 0, block_size: 32}]", "explicit engine argument without an owner: 'block_size'"),
        ("stages: [{stage_id: 0, engine_args: {model_stage: llm}}]", "without an owner: 'model_stage'"),
        ("stages: [{stage_id: 0, max_num_seqs: '4'}]", "stages.0.max_num_seqs is '4'"),
        ("stages: [{stage_id: 0, enforce_eager: 1}]", "stages.0.enforce_eager is 1"),
        ("stages: [{stage_id: 0, gpu_memory_utilization: 1.5}]", "less than or equal to 1"),
        ("stages: [{stage_id: 0, devices: 'a'}]", "devices are indices into the visible set"),
        ("stages: [{stage_id: 0, devices: '1,1'}]", "a device stands twice"),
        ("stages: [{stage_id: 0, quantization: fp8}]", "quantised weights are not supported"),
        ("stages: [{stage_id: 0, max_num_seqs: 9, max_num_batched_tokens: 8}]", "(8) is below max_num_seqs (9)"),
        ("stages: [{stage_id: 0, limit_mm_per_prompt: {vidio: 1}}]", "did you mean 'video'?"),
        ("stages: [{stage_id: 0, default_sampling_params: {temprature: 1}}]", "did you mean 'temperature'?"),
        ("stages: [{stage_id: 0, default_sampling_params: {top_p: 2}}]", "top_p is 2; it must be"),
        ("stages: [{stage_id: 1, default_sampling_params: {min_p: 0.1}}]", "the talker stage does not use"),
        ("stages: [{stage_id: 1, interleave_mm_strings: true}]", "a setting of stage 0 (thinker) only"),
        ("stages: [{stage_id: 1, tensor_parallel_size: 2, devices: '1,2'}]", "only stage 0 can be split"),
        ("stages: [{stage_id: 0, async_chunk: false}]", "async_chunk is false in stage 0 and true in stage 1"),
        ("stages: [{stage_id: 1, output_connectors: null}]", "async_chunk is on but stage 1 produces no chunks"),
        ("stages: [{stage_id: 2, input_connectors: null}]", "stage 2 receives through nothing"),
        ("stages: [{stage_id: 1, output_connectors: {to_stage_2: shn}}]", "'shn', which is not defined"),
        ("stages: [{stage_id: 0, output_connectors: {to_stage_2: shm}}]", "no edge to stage 2"),
        ("stages: [{stage_id: 1, output_connectors: {stage_2: shm}}]", "output_connectors"),
        ("stages: [{stage_id: 0, tensor_parallel_size: 4, devices: '0,1'}]", "devices lists 2, but 4"),
        ("stages: [{stage_id: 1, num_replicas: 3, devices: '1,2'}]", "or 3 (a pool for 3 replicas)"),
        ("stages: [{stage_id: 1, num_replicas: 3, devices: '0'}]", "device 0: the shares add up to 1.30"),
        ("stages: [{stage_id: 0, gpu_memory_utilization: 0.61}]", "device 0: the shares add up to 1.01"),
        ("stages: [{stage_id: 4}]", "stage ids must be 0, 1, 2 in this order, found 0, 1, 2, 4"),
        ("stages: [{stage_id: -1}]", "every stage needs its stage_id"),
        ("stages: [{stage_id: 0}, {stage_id: 0}]", "stage_id 0 stands twice"),
        ("stages: {0: {}}", "stages must be a list"),
        ("stage_args: []", "stage_args was removed; write `stages:` instead"),
        ("connectors: {shm: {name: SharedMemoryConector}}", "did you mean 'SharedMemoryConnector'?"),
        ("connectors: {shm: {name: NixlConnector}}", "NixlConnector is vLLM-Omni's and not built here"),
        ("connectors: {shm: {extra: {codec_chunk_frames: 0}}}", "codec_chunk_frames is 0"),
        ("connectors: {shm: {extra: {codec_left_context_frames: -1}}}", "codec_left_context_frames is -1"),
        ("connectors: {shm: {extra: {codec_chunk_frame: 5}}}", "did you mean 'codec_chunk_frames'?"),
        ("connectors: {shm: {extra: {token2wav_trt: true}}}", "only false is supported"),
        ("connectors: {shm: {extra: {port: 1}}}", "a setting of ZeroMQConnector only"),
        (
            "connectors: {shm: {extra: {code2wav_min_batch_size: 3, code2wav_initial_batch_size: 2}}}",
            "code2wav_initial_batch_size (2) must be 0 or at least",
        ),
        ("duplex_session: {max_sessions: 0}", "duplex_session.max_sessions is 0"),
        ("duplex_session: {reaper_interval_s: null}", "duplex_session.reaper_interval_s is None"),
        ("duplex_session: {max_session: 4}", "did you mean 'max_sessions'?"),
        ("duplex_session: {server_vad_model_path: ''}", "server_vad_model_path is ''"),
        ("duplex_session: {completed_append_cache_size: 0}", "it must be positive"),
        ("platforms: {npuu: {stages: []}}", "did you mean 'npu'?"),
        ("platforms: {npu: {stages: [{stage_id: 0, max_seqs: 1}]}}", "did you mean 'max_num_seqs'?"),
        ("platforms: {npu: {stages: [{stage_id: 7}]}}", "platforms.npu: there is no stage 7"),
        ("edges: [{from: 0, to: 2}]", "edges are fixed by the pipeline"),
        ("edges: [{form: 0, to: 1}]", "edges"),
        ("optimizations: {cfm_graf: true}", "unknown switch 'cfm_graf'; did you mean 'cfm_graph'?"),
        ("optimizations: {cfm_graph: 1}", "optimizations.cfm_graph is 1; allowed: true, false"),
        ("optimizations: {talker_window_steps: 3}", "allowed: 1, 2, 4, 8, 25, 28"),
        ("optimizations: {cfm_steps: 3, cfm_tangent_stop: 3}", "must be below cfm_steps (3)"),
        ("optimizations: {dit_precision: fp8}", "allowed: fp32, tf32, bf16"),
        ("dtype: int8", "dtype is 'int8'"),
        ("base_config: other.yaml", "stands twice"),
    ],
)
def test_a_mistake_is_named(read: Read, text: str, words: str) -> None:
    problems = [str(problem) for problem in read(text).problems]
    assert any(words in problem for problem in problems), problems


def test_a_message_carries_file_and_line(read: Read) -> None:
    assert only(read("stages:\n  - stage_id: 0\n    max_num_sqes: 4")).startswith("deploy.yaml:4: stages.0: ")


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ("{", "not valid JSON"),
        ("[]", "expected an object"),
        ('{"a": {}}', "key 'a' is not a stage id"),
        ('{"²": {}}', "is not a stage id"),
        ('{"3": {}}', "there is no stage 3; stage ids are 0 to 2"),
        ('{"0": 1}', "stage 0: expected an object"),
        ('{"0": {"gpu_memory_utilisation": 0.3}}', "did you mean 'gpu_memory_utilization'?"),
        ('{"0": {"max_num_seqs": "4"}}', "max_num_seqs is '4'"),
        ('{"0": {}, "0": {}}', "stands twice"),
    ],
)
def test_a_bad_stage_override_is_refused(read: Read, overrides: str, words: str) -> None:
    message = only(read("", stage_overrides=overrides))
    assert message.startswith("--stage-overrides: ")
    assert words in message


def test_an_unknown_flag_is_refused_by_the_nearest_name(read: Read) -> None:
    message = only(read("", flags={"max_num_seq": 4}))
    assert message == "--max-num-seq: no such engine flag; did you mean 'max_num_seqs'?"
    assert "no such engine flag" in only(read("", flags={"stages": []}))


def test_a_missing_file_lists_the_shipped_ones() -> None:
    assert "deploy file not found" in only(read_deploy("missing.yaml"))
    with pytest.raises(DeployError, match=r"minicpmo_4_5_2gpu\.yaml"):
        load_deploy("missing.yaml")


@pytest.mark.parametrize(
    "text",
    ["", "- 1", "a: [", "stages: [1]", "? [a]\n: 1", "a: 1\na: 2", "base_config: 3", "a: 2024-13-41", "a: &a {b: *a}"],
)
def test_a_file_that_is_no_deploy_file_is_refused(write: Callable[..., str], text: str) -> None:
    assert read_deploy(write(text)).config is None


def test_stage_ids_of_a_file_stand_in_order(write: Callable[..., str]) -> None:
    message = only(read_deploy(write("stages: [{stage_id: 1}, {stage_id: 0}, {stage_id: 2}]")))
    assert "found 1, 0, 2" in message
    assert "stages are missing" in only(read_deploy(write("async_chunk: true")))


def test_a_base_that_leads_back_is_refused(write: Callable[..., str]) -> None:
    write("base_config: two.yaml", "one.yaml")
    path = write("base_config: one.yaml", "two.yaml")
    assert "two.yaml -> one.yaml -> two.yaml" in only(read_deploy(path))
    assert "not found beside" in only(read_deploy(write("base_config: gone.yaml")))


def test_the_second_runner_is_refused_on_two_platforms(read: Read) -> None:
    assert not read("model_runner: v2").problems
    assert "not available on npu" in only(read("model_runner: v2", platform="npu"))


def test_an_unknown_platform_is_refused(read: Read) -> None:
    assert "did you mean 'cuda'?" in only(read("", platform="cud"))


def test_a_device_beyond_the_visible_set_is_named(read: Read) -> None:
    config = read("stages: [{stage_id: 1, devices: 1}]").config
    assert config is not None
    assert "device 1 is not visible" in str(check_visible(config, 1)[0])
    assert not check_visible(config, 2)


def test_only_the_checkpoint_that_is_served_finds_its_file() -> None:
    assert default_deploy_file(["MiniCPMO"], "4.5") == "minicpmo_4_5.yaml"
    with pytest.raises(DeployError, match=r"2\.6"):
        default_deploy_file(["MiniCPMO"], "2.6")


def test_a_legacy_key_in_both_spellings_is_refused(read: Read) -> None:
    text = "stages: [{stage_id: 0, max_num_seqs: 2, engine_args: {max_num_seqs: 3}}]"
    assert "stands both in the stage and under engine_args" in only(read(text))
    assert "must be a mapping" in only(read("stages: [{stage_id: 0, runtime: 3}]"))
