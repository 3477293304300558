"""What the stages note of a spoken answer reaches the metrics, from threads and from worker processes."""

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from antiphon.config.load import load_deploy
from antiphon.core.handoff import Handoff
from antiphon.core.sampling import DEFAULT_STAGE_PARAMS, SamplingParams
from antiphon.pipeline.build import build_omni_model
from antiphon.pipeline.events import Finished
from antiphon.pipeline.local_engine import LocalEngine
from antiphon.pipeline.process_engine import ProcessEngine
from antiphon.pipeline.processes.fleet import SupervisorSettings
from antiphon.pipeline.request import GenerationRequest
from antiphon.pipeline.stage_facts import StageObservation
from antiphon.prompt.chat_prompt import build_chat_prompt
from antiphon.prompt.messages import Message, TextPart
from antiphon.serving.engine_pipeline import EnginePipeline

SMALL = '"max_num_seqs": 4, "max_model_len": 1024, "kv_cache_memory_bytes": 16777216'
TWO_TALKERS = (
    f'{{"0": {{{SMALL}, "devices": "0"}}, "1": {{{SMALL}, "devices": "1,2", "num_replicas": 2}},'
    ' "2": {"max_num_seqs": 4, "devices": "0"}}'
)
HOP = ("transfer_size_bytes", "transfer_tx_s", "transfer_rx_s", "transfer_in_flight_s")


def request(engine: LocalEngine | ProcessEngine, name: str) -> GenerationRequest:
    model = engine.model
    return GenerationRequest(
        request_id=name,
        prompt=build_chat_prompt(
            (Message("user", (TextPart("Say la."),)),),
            model.tokenizer,
            model.image_config,
            join="",
            use_tts_template=True,
        ),
        sampling=(
            SamplingParams(max_tokens=24, ignore_eos=True, seed=1),
            replace(DEFAULT_STAGE_PARAMS[1], min_tokens=30, max_tokens=60, seed=2),
            DEFAULT_STAGE_PARAMS[2],
        ),
        voice=engine.voices.prepare(None),
        handoff=Handoff.STREAM,
    )


def speak(pipeline: EnginePipeline, engine: LocalEngine | ProcessEngine, names: tuple[str, ...]) -> list[Finished]:
    handles = [pipeline.submit(request(engine, name)) for name in names]
    ends = [list(handle)[-1] for handle in handles]
    assert all(isinstance(end, Finished) for end in ends), ends
    return [end for end in ends if isinstance(end, Finished)]


@pytest.fixture(params=["threads", "processes"])
def engine(tiny_checkpoint: Path, request: pytest.FixtureRequest) -> Iterator[LocalEngine | ProcessEngine]:
    if request.param == "threads":
        deploy = load_deploy("cpu.yaml", platform="cpu", stage_overrides=f'{{"0": {{{SMALL}}}, "1": {{{SMALL}}}}}')
        local = LocalEngine(build_omni_model(tiny_checkpoint, device=torch.device("cpu")), deploy)
        local.start()
        yield local
        local.close()
        return
    workers = ProcessEngine(
        build_omni_model(tiny_checkpoint, device=torch.device("cpu"), only=()),
        load_deploy("cpu.yaml", platform="cpu", stage_overrides=TWO_TALKERS),
        source=str(tiny_checkpoint),
        settings=SupervisorSettings(tick_s=0.1),
    )
    workers.start()
    yield workers
    workers.close()


def test_each_hop_and_each_wait_of_a_spoken_answer_is_noted(engine: LocalEngine | ProcessEngine) -> None:
    pipeline = EnginePipeline(engine)
    ends = speak(pipeline, engine, ("a", "b"))
    seen: list[StageObservation] = []
    deadline_s = time.monotonic() + 20
    while Counter((item.family, item.stage) for item in seen)["transfer_in_flight_s", 2] < 4:
        assert time.monotonic() < deadline_s, seen
        seen += pipeline.take_observations()
        time.sleep(0.05)
    time.sleep(0.5)
    seen += pipeline.take_observations()
    counts = Counter((item.family, item.stage) for item in seen)
    for stage in (1, 2):
        assert len({counts[family, stage] for family in HOP}) == 1, counts
    assert {counts["stage_in_queue_s", stage] for stage in (0, 1, 2)} == {2}
    sizes = [item.value for item in seen if item.family == "transfer_size_bytes" and item.stage == 1]
    assert sum(sizes) > 24 * 4 * engine.model.config.llm.hidden_size
    assert all(item.value >= 0 for item in seen)
    is_apart = isinstance(engine, ProcessEngine)
    assert {item.connector for item in seen if item.family == "kv_wait_s"} == {"shm" if is_apart else "memory"}
    talkers = {item.replica for item in seen if item.family == "transfer_rx_s" and item.stage == 1}
    assert talkers == ({0, 1} if is_apart else {0})
    assert {end.metrics.replicas[1] for end in ends} == talkers
    assert all((end.metrics.queue_wait_s or -1) >= 0 for end in ends)
    assert all((end.metrics.codes_finished_s or 0) > (end.metrics.first_code_s or 0) > 0 for end in ends)


def test_every_replica_says_what_it_holds_and_counts_what_it_did(engine: LocalEngine | ProcessEngine) -> None:
    pipeline = EnginePipeline(engine)
    speak(pipeline, engine, ("a",))
    deadline_s = time.monotonic() + 20
    while not pipeline.counters() or len(pipeline.stage_gauges()) < 3:
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
    places = {(item.stage, item.replica) for item in pipeline.stage_gauges()}
    assert places == (
        {(0, 0), (1, 0), (1, 1), (2, 0)} if isinstance(engine, ProcessEngine) else {(0, 0), (1, 0), (2, 0)}
    )
    assert {"requests_waiting", "requests_in_flight"} <= set(pipeline.gauges())
    assert not any(name in pipeline.gauges() for name in pipeline.counters())
