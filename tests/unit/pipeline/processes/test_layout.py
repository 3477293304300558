import pytest

from antiphon.config.load import load_deploy
from antiphon.core.errors import ConfigError
from antiphon.pipeline.processes.layout import WorkerPlan, join_workers, only_stages, plan_layout

STAGES = ("thinker", "talker", "code2wav")


def shape(name: str, platform: str = "cuda") -> list[tuple[tuple[str, ...], str]]:
    return [(worker.stages, worker.device) for worker in plan_layout(load_deploy(name, platform=platform)).workers]


def test_one_device_is_one_worker() -> None:
    layout = plan_layout(load_deploy("cpu.yaml", platform="cpu"))
    assert [(worker.stages, worker.device) for worker in layout.workers] == [(STAGES, "cpu")]
    assert layout.edges == ()


def test_stages_that_share_a_device_share_a_worker() -> None:
    assert shape("minicpmo_4_5_2gpu.yaml") == [(("thinker",), "cuda:0"), (("talker", "code2wav"), "cuda:1")]
    assert shape("minicpmo_4_5_3gpu_stage1_replicas.yaml") == [
        (("thinker", "code2wav"), "cuda:0"),
        (("talker",), "cuda:1"),
        (("talker",), "cuda:2"),
    ]


def test_edges_go_where_the_next_stage_is_elsewhere_only() -> None:
    layout = plan_layout(load_deploy("minicpmo_4_5_3gpu_stage1_replicas.yaml"))
    assert [edge.name for edge in layout.edges] == [
        "w0.w1.talker",
        "w0.w2.talker",
        "w1.w0.code2wav",
        "w2.w0.code2wav",
    ]
    assert {edge.name for edge in layout.edges_of("w2")} == {"w0.w2.talker", "w2.w0.code2wav"}


def test_replicas_of_the_whole_pipeline_need_no_edges() -> None:
    overrides = '{"0": {"devices": "0,1", "num_replicas": 2}, "1": {"devices": "0,1", "num_replicas": 2}, "2": {"devices": "0,1", "num_replicas": 2}}'  # noqa: E501
    layout = plan_layout(load_deploy("minicpmo_4_5.yaml", stage_overrides=overrides))
    assert [(worker.stages, worker.device) for worker in layout.workers] == [(STAGES, "cuda:0"), (STAGES, "cuda:1")]
    assert layout.edges == ()


def test_a_stage_without_a_worker_is_refused() -> None:
    with pytest.raises(ConfigError, match="no worker holds code2wav"):
        join_workers(STAGES, (WorkerPlan(name="w0", stages=("thinker", "talker"), device="cpu"),))


def test_a_tensor_parallel_stage_is_one_worker_of_several_devices() -> None:
    layout = plan_layout(load_deploy("minicpmo_4_5_8x4090.yaml"))
    first = layout.workers[0]
    assert (first.stages, first.device, first.peers) == (("thinker",), "cuda:0", ("cuda:1", "cuda:2", "cuda:3"))
    assert all(worker.peers == () for worker in layout.workers[1:])


def test_without_speech_only_the_thinkers_are_left() -> None:
    layout = only_stages(plan_layout(load_deploy("minicpmo_4_5_3gpu_stage1_replicas.yaml")), ("thinker",))
    assert [(worker.name, worker.stages) for worker in layout.workers] == [("w0", ("thinker",))]
    assert layout.edges == ()
