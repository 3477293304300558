"""The tiny model in real worker processes, in the layouts that deploy files describe; the CPU stands in for devices."""

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from antiphon.config.deploy import DeployConfig
from antiphon.config.load import load_deploy
from antiphon.core.errors import EngineError
from antiphon.core.handoff import Handoff
from antiphon.core.sampling import DEFAULT_STAGE_PARAMS, SamplingParams
from antiphon.engine.counter_noise import CounterNoise
from antiphon.models.code2wav.counter_source import CounterSourceNoise
from antiphon.offline.omni import Omni
from antiphon.pipeline.build import build_omni_model
from antiphon.pipeline.connectors.segment_names import SEGMENT_FOLDER, process_start_ticks
from antiphon.pipeline.eager.chat import ChatGenerator, ChatRequest
from antiphon.pipeline.eager.vocoder import Vocoder
from antiphon.pipeline.events import Aborted, AudioChunk, Failed, Finished, RequestEvent
from antiphon.pipeline.omni_model import OmniModel
from antiphon.pipeline.orchestrator import RequestHandle
from antiphon.pipeline.process_engine import ProcessEngine
from antiphon.pipeline.processes.fleet import SupervisorSettings
from antiphon.pipeline.processes.worker_state import RestartPolicy
from antiphon.pipeline.request import GenerationRequest
from antiphon.pipeline.voice_book import VoiceBook
from antiphon.prompt.chat_prompt import build_chat_prompt
from antiphon.prompt.messages import AudioPart, ImagePart, Message, Part, TextPart

SMALL = '"max_num_seqs": 4, "max_model_len": 1024, "kv_cache_memory_bytes": 16777216'
LAYOUTS = {
    "one worker": f'{{"0": {{{SMALL}}}, "1": {{{SMALL}}}, "2": {{"max_num_seqs": 4}}}}',
    "three workers": f'{{"0": {{{SMALL}, "devices": "0"}}, "1": {{{SMALL}, "devices": "1"}},'
    ' "2": {"max_num_seqs": 4, "devices": "2"}}',
    "two talkers": f'{{"0": {{{SMALL}, "devices": "0"}}, "1": {{{SMALL}, "devices": "1,2", "num_replicas": 2}},'
    ' "2": {"max_num_seqs": 4, "devices": "0"}}',
    "two pipelines": f'{{"0": {{{SMALL}, "devices": "0,1", "num_replicas": 2}},'
    f' "1": {{{SMALL}, "devices": "0,1", "num_replicas": 2}},'
    ' "2": {"max_num_seqs": 4, "devices": "0,1", "num_replicas": 2}}',
    "tensor parallel": f'{{"0": {{{SMALL}, "devices": "0,1", "tensor_parallel_size": 2}},'
    f' "1": {{{SMALL}, "devices": "0"}}, "2": {{"max_num_seqs": 4, "devices": "0"}}}}',
}
NUM_WORKERS = {"one worker": 1, "three workers": 3, "two talkers": 3, "two pipelines": 2, "tensor parallel": 2}
SETTINGS = SupervisorSettings(restarts=RestartPolicy(first_pause_s=0.05), tick_s=0.1)
# As in test_engine_generate: the vocoder sums phases, so it carries rounding of other batches on.
MAX_SAMPLE_ERROR, TYPICAL_SAMPLE_ERROR = 2e-3, 2e-4
NUM_KINDS = 6
HELD = ("requests", "sequences", "streams", "slots_lent", "slots_retired", "blocks_used", "num_settling", "in_flight")


def layout(name: str) -> DeployConfig:
    return load_deploy("cpu.yaml", platform="cpu", stage_overrides=LAYOUTS[name])


class Oracle:
    """Requests of several kinds, and the answers of the eager generator."""

    def __init__(self, folder: Path) -> None:
        self.model = build_omni_model(folder, device=torch.device("cpu"))
        self.voice = VoiceBook(self.model).prepare(None)
        self.generator = ChatGenerator(self.model, noise=CounterNoise, source_noise=CounterSourceNoise)
        self.answer = lru_cache(maxsize=None)(self._answer)

    def request(self, kind: int, name: str = "", **thinker: object) -> GenerationRequest:
        draw = np.random.default_rng(kind)
        parts: list[Part] = [TextPart("Say this: " + "la " * (4 * kind))]
        if kind == 1:
            parts.append(ImagePart(Image.fromarray(draw.integers(0, 255, (60, 50, 3), np.uint8))))
        if kind == 2:
            parts.append(AudioPart(draw.normal(0, 0.1, 20_000).astype(np.float32)))
        prompt = build_chat_prompt(
            (Message("user", tuple(parts)),),
            self.model.tokenizer,
            self.model.image_config,
            join="",
            use_tts_template=True,
        )
        writing = SamplingParams(temperature=0.8, max_tokens=16 + kind, ignore_eos=kind % 2 == 1, seed=kind)
        speaking = replace(DEFAULT_STAGE_PARAMS[1], min_tokens=4, max_tokens=30 + 5 * kind, seed=kind + 1)
        return GenerationRequest(
            request_id=f"{name}{kind}",
            prompt=prompt,
            sampling=(replace(writing, **thinker), speaking, replace(DEFAULT_STAGE_PARAMS[2], seed=kind + 2)),  # type: ignore[arg-type]
            voice=None if kind == 5 else self.voice,
            handoff=Handoff.STREAM if kind % 2 else Handoff.SPAN,
        )

    def long_request(self, name: str) -> GenerationRequest:
        """Runs until somebody ends it, as far as a test is concerned."""
        request = self.request(3, name, max_tokens=400, ignore_eos=True)
        speaking = replace(request.sampling[1], min_tokens=1000, max_tokens=1000)
        return replace(request, sampling=(request.sampling[0], speaking, request.sampling[2]), handoff=Handoff.STREAM)

    def _answer(self, kind: int) -> list[RequestEvent]:
        request = self.request(kind)
        assert self.model.code2wav is not None
        vocoder = None if request.voice is None else Vocoder(self.model.code2wav, request.voice.features)
        chat = ChatRequest(
            prompt=request.prompt,
            sampling=request.sampling,
            vocoder=vocoder,
            handoff=request.handoff,
            voice_in_chunks=True,
        )
        return list(self.generator.run(chat))

    def check(self, kind: int, events: Sequence[RequestEvent]) -> None:
        wanted, got, want = self.answer(kind), events[-1], self.answer(kind)[-1]
        assert isinstance(got, Finished), got
        assert isinstance(want, Finished)
        assert (got.text, got.token_ids, got.finish_reason) == (want.text, want.token_ids, want.finish_reason)
        assert (got.codec_ids, got.speech_finish_reason) == (want.codec_ids, want.speech_finish_reason)
        heard, expected = samples_of(events), samples_of(wanted)
        assert len(heard) == len(expected) == 960 * len(got.codec_ids)
        if len(heard):
            assert np.abs(heard - expected).max() < MAX_SAMPLE_ERROR
            assert np.sqrt(np.mean((heard - expected) ** 2)) < TYPICAL_SAMPLE_ERROR


def samples_of(events: Sequence[RequestEvent]) -> "np.ndarray[tuple[int, ...], np.dtype[np.float32]]":
    chunks = [event.samples for event in events if isinstance(event, AudioChunk)]
    return np.concatenate(chunks) if chunks else np.zeros(0, np.float32)


def collect(handles: Sequence[RequestHandle]) -> list[list[RequestEvent]]:
    with ThreadPoolExecutor(len(handles)) as pool:
        return list(pool.map(list, handles))


def wait(condition: Callable[[], bool], timeout_s: float = 30) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.01)


def pids(engine: ProcessEngine) -> list[int]:
    found = [worker.pid for worker in engine.health().workers]
    assert None not in found
    return [pid for pid in found if pid is not None]


def held(engine: ProcessEngine) -> dict[str, float]:
    return {name: value for name, value in engine.snapshot().items() if name.endswith(HELD) and value}


def is_calm(engine: ProcessEngine) -> bool:
    return not held(engine) and not engine.supervisor.num_requests and not engine.orchestrator.num_requests


def close(engine: ProcessEngine) -> None:
    workers = pids(engine)
    engine.close()
    assert all(process_start_ticks(pid) is None for pid in workers), "a worker or a zombie is left"
    assert not [path for pid in workers for path in SEGMENT_FOLDER.glob(f"antiphon-{pid}-*")]


@pytest.fixture(scope="module")
def oracle(tiny_checkpoint: Path) -> Oracle:
    return Oracle(tiny_checkpoint)


@pytest.fixture(scope="module")
def front_model(tiny_checkpoint: Path) -> OmniModel:
    """Sizes and tokenizer without a single weight."""
    model = build_omni_model(tiny_checkpoint, device=torch.device("cpu"), only=())
    assert all(value.is_meta for stage in (model.thinker, model.talker) for value in stage.parameters())  # type: ignore[union-attr]
    return model


def start(front_model: OmniModel, name: str) -> ProcessEngine:
    made = ProcessEngine(front_model, layout(name), source=str(front_model.folder), settings=SETTINGS)
    made.start(timeout_s=120)
    return made


@pytest.fixture(scope="module")
def talkers(front_model: OmniModel) -> Iterator[ProcessEngine]:
    """Thinker and Code2Wav in one worker, two Talkers in their own."""
    engine = start(front_model, "two talkers")
    yield engine
    close(engine)


def check_answers(engine: ProcessEngine, oracle: Oracle) -> None:
    kinds = [*range(NUM_KINDS), *range(NUM_KINDS)]
    handles = [engine.submit(oracle.request(kind, f"r{n}-")) for n, kind in enumerate(kinds)]
    for kind, events in zip(kinds, collect(handles), strict=True):
        oracle.check(kind, events)
        assert sum(isinstance(event, (Finished, Failed, Aborted)) for event in events) == 1
    wait(lambda: is_calm(engine))


@pytest.mark.parametrize("name", ["one worker", "three workers", "two pipelines"])
def test_every_layout_answers_as_the_oracle(front_model: OmniModel, oracle: Oracle, name: str) -> None:
    engine = start(front_model, name)
    assert len(pids(engine)) == NUM_WORKERS[name]
    check_answers(engine, oracle)
    close(engine)


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [int(child) for child in text.split()]


def test_two_ranks_answer_as_the_oracle_and_die_and_return_together(front_model: OmniModel, oracle: Oracle) -> None:
    engine = start(front_model, "tensor parallel")
    assert len(pids(engine)) == NUM_WORKERS["tensor parallel"]
    check_answers(engine, oracle)
    first = pids(engine)[0]
    (rank,) = children(first)
    hit = engine.submit(oracle.long_request("hit-"))
    assert hit.take(30) is not None
    os.kill(rank, signal.SIGKILL)
    end = collect([hit])[0][-1]
    assert isinstance(end, Failed)
    assert "tensor parallel rank 1 was killed by signal 9" in str(end.error)
    wait(lambda: engine.health().is_ready and engine.health().workers[0].num_restarts == 1, timeout_s=60)
    assert process_start_ticks(first) is None
    assert process_start_ticks(rank) is None
    check_answers(engine, oracle)
    ranks = children(pids(engine)[0])
    close(engine)
    assert all(process_start_ticks(pid) is None for pid in ranks)


def test_two_talkers_answer_as_the_oracle_and_share_the_work(talkers: ProcessEngine, oracle: Oracle) -> None:
    check_answers(talkers, oracle)
    snapshot = talkers.snapshot()
    assert all(snapshot[f"{worker}.talker_step_window"] > 0 for worker in ("w1", "w2"))


def test_a_talker_killed_under_load_takes_only_its_own_requests(talkers: ProcessEngine, oracle: Oracle) -> None:
    long = [talkers.submit(oracle.long_request(f"long{number}-")) for number in range(4)]
    texts = [talkers.submit(oracle.request(5, f"text{number}-")) for number in range(2)]
    wait(lambda: sum(value for name, value in talkers.snapshot().items() if name.endswith("talker.slots_lent")) == 4)
    killed = pids(talkers)[1]
    os.kill(killed, signal.SIGKILL)
    wait(lambda: talkers.health().stage("talker").state != "ready")
    health = talkers.health()
    assert health.is_live
    assert health.is_ready  # the other talker serves
    for events in collect(texts):
        oracle.check(5, events)
    wait(lambda: talkers.orchestrator.num_requests == 2)
    for handle in long:
        handle.abort()
    ends = [events[-1] for events in collect(long)]
    failures = [end for end in ends if isinstance(end, Failed)]
    assert len(failures) == sum(isinstance(end, Aborted) for end in ends) == 2
    for failure in failures:
        assert failure.stage == "talker"
        assert isinstance(failure.error, EngineError)
        assert str(failure.error).startswith("worker w1 (talker) died (killed by SIGKILL)")

    wait(lambda: talkers.health().stage("talker").state == "ready")
    assert process_start_ticks(killed) is None
    assert talkers.health().workers[1].num_restarts == 1
    check_answers(talkers, oracle)


def test_two_hundred_aborts_at_any_time_leave_nothing(talkers: ProcessEngine, oracle: Oracle) -> None:
    def resources() -> list[tuple[int, int]]:
        """Threads and descriptors of each worker."""
        return [(len(os.listdir(f"/proc/{pid}/task")), len(os.listdir(f"/proc/{pid}/fd"))) for pid in pids(talkers)]

    before = resources()
    for number in range(200):
        handle = talkers.submit(oracle.request(number % NUM_KINDS, f"a{number}-"))
        if number % 20 == 19:
            handle.take(5)  # let it begin, and some of those before it
        if number % 3:
            handle.abort()
        else:
            while handle.take(0) is not None:
                pass
            handle.abort()
    wait(lambda: is_calm(talkers))
    check_answers(talkers, oracle)
    assert resources() == before


def test_a_terminated_talker_finishes_its_requests(talkers: ProcessEngine, oracle: Oracle) -> None:
    kinds = (0, 1, 2, 3)
    handles = [talkers.submit(oracle.request(kind, "term-")) for kind in kinds]
    first = handles[-1].take(30)
    assert first is not None
    old = pids(talkers)[2]
    os.kill(old, signal.SIGTERM)
    answers = collect(handles)
    answers[-1].insert(0, first)
    for kind, events in zip(kinds, answers, strict=True):
        oracle.check(kind, events)
    wait(lambda: process_start_ticks(old) is None)
    wait(lambda: talkers.health().stage("talker").state == "ready")
    check_answers(talkers, oracle)


def test_draining_lets_requests_finish_and_refuses_new_ones(front_model: OmniModel, oracle: Oracle) -> None:
    engine = start(front_model, "one worker")
    kinds = (0, 3)
    handles = [engine.submit(oracle.request(kind)) for kind in kinds]
    assert engine.drain(30)  # also of what has not reached the workers yet
    for kind, events in zip(kinds, collect(handles), strict=True):
        oracle.check(kind, events)
    assert engine.health().is_draining
    with pytest.raises(EngineError, match="shutting down"):
        engine.submit(oracle.request(1))
    close(engine)


def test_omni_runs_in_processes(tiny_checkpoint: Path) -> None:
    prompt = {"prompt": "Hello there", "modalities": ["text", "audio"]}
    params = [
        SamplingParams(max_tokens=8, seed=1),
        replace(DEFAULT_STAGE_PARAMS[1], min_tokens=2, max_tokens=12),
        DEFAULT_STAGE_PARAMS[2],
    ]
    answers = {}
    for engine in ("eager", "processes"):
        with Omni(tiny_checkpoint, engine=engine, device="cpu", voice_in_chunks=True) as omni:  # type: ignore[arg-type]
            text, audio = omni.generate(prompt, params, use_tqdm=False)
            answers[engine] = (text.outputs[0].text, text.outputs[0].token_ids, audio.outputs[0].token_ids)
    assert answers["eager"] == answers["processes"]
