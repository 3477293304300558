"""The engine against its slow twin on the tiny model: the same tokens, codes and sound, whoever else is there."""

import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache, lru_cache

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from antiphon.config.deploy import DeployConfig
from antiphon.config.load import load_deploy
from antiphon.core.errors import CapacityError, StateError
from antiphon.core.handoff import Handoff
from antiphon.core.outputs import FinishReason
from antiphon.core.sampling import DEFAULT_STAGE_PARAMS, SamplingParams
from antiphon.engine.counter_noise import CounterNoise
from antiphon.engine.thinker_messages import MediaRows
from antiphon.models.code2wav.counter_source import CounterSourceNoise
from antiphon.pipeline.build import build_omni_model
from antiphon.pipeline.eager.chat import ChatGenerator, ChatRequest
from antiphon.pipeline.eager.vocoder import Vocoder
from antiphon.pipeline.events import Aborted, AudioChunk, Failed, Finished, RequestEvent, TextDelta
from antiphon.pipeline.local_engine import LocalEngine
from antiphon.pipeline.messages import ThinkerRequest
from antiphon.pipeline.omni_model import OmniModel
from antiphon.pipeline.orchestrator import RequestHandle
from antiphon.pipeline.request import GenerationRequest
from antiphon.pipeline.stages.media import MediaEncoder
from antiphon.pipeline.voice_book import PreparedVoice, VoiceBook
from antiphon.prompt.chat_prompt import ChatPrompt, build_chat_prompt
from antiphon.prompt.messages import AudioPart, ImagePart, Message, Part, TextPart

MAX_SAMPLE_ERROR = 1e-4
OVERRIDES = """{{
  "0": {{"max_num_seqs": {rows}, "max_model_len": 1024, "kv_cache_memory_bytes": {kv_bytes}}},
  "1": {{"max_num_seqs": {rows}, "max_model_len": 512}},
  "2": {{"max_num_seqs": {rows}}}
}}"""


def layout(*, rows: int = 16, kv_bytes: int = 64 << 20, **stage_keys: object) -> DeployConfig:
    config = load_deploy("cpu.yaml", platform="cpu", stage_overrides=OVERRIDES.format(rows=rows, kv_bytes=kv_bytes))
    stages = (replace(config.stages[0], **stage_keys), *config.stages[1:])  # type: ignore[arg-type]
    return replace(config, stages=stages, session_mode="turn")  # live sessions would want a row each


@pytest.fixture(scope="module")
def model(tiny_checkpoint: object) -> OmniModel:
    """The tiny model with its pitch lowered tenfold, so that 1e-4 can be asked for.

    The excitation sums its phase over a second: at the usual pitch, changing the vocoder's input by one part in a
    million moves its own samples by 6e-4.
    """
    model = build_omni_model(str(tiny_checkpoint), device=torch.device("cpu"))
    assert model.code2wav is not None
    with torch.no_grad():
        for parameter in model.code2wav.hift.f0_predictor.classifier.parameters():
            parameter.mul_(0.1)
    return model


@pytest.fixture(scope="module")
def voice(model: OmniModel) -> PreparedVoice:
    return VoiceBook(model).prepare(None)


@pytest.fixture(scope="module")
def engine(model: OmniModel) -> Iterator[LocalEngine]:
    with LocalEngine(model, layout()) as engine:
        engine.start()
        yield engine


class Requests:
    """Makes requests of every kind from a seed, and the answers the slow twin gives to them."""

    def __init__(self, model: OmniModel, voice: PreparedVoice) -> None:
        self.model, self.voice = model, voice
        self.generator = ChatGenerator(model, noise=CounterNoise, source_noise=CounterSourceNoise)
        self.vocoder = Vocoder(model.code2wav, voice.features)  # type: ignore[arg-type]
        self.expected = lru_cache(maxsize=None)(self._expect)

    def make(self, seed: int, *, name: str = "") -> GenerationRequest:
        chance = random.Random(seed)
        spoken = chance.random() < 0.8
        return GenerationRequest(
            request_id=f"{name}{seed}",
            prompt=self.prompt(chance.randrange(12)),
            sampling=self._sampling(seed, chance),
            voice=self.voice if spoken else None,
            handoff=chance.choice(list(Handoff)),
        )

    @cache  # noqa: B019 - lives as long as the tests of this file
    def prompt(self, kind: int) -> ChatPrompt:
        draw = np.random.default_rng(kind)
        parts: list[Part] = [TextPart("Say this: " + "la " * (3 * kind))]
        if kind % 3 == 1:
            parts.append(ImagePart(Image.fromarray(draw.integers(0, 255, (60 + kind, 50, 3), np.uint8))))
        if kind % 4 == 2:
            parts.append(AudioPart(draw.normal(0, 0.1, 16_000 + 800 * kind).astype(np.float32)))
        return self.build(tuple(parts))

    def build(self, parts: tuple[Part, ...]) -> ChatPrompt:
        model = self.model
        message = (Message("user", parts),)
        return build_chat_prompt(message, model.tokenizer, model.image_config, join="", use_tts_template=True)

    @staticmethod
    def _sampling(seed: int, chance: random.Random) -> tuple[SamplingParams, SamplingParams, SamplingParams]:
        thinker = SamplingParams(
            temperature=chance.choice([0.0, 0.8, 1.0]),
            top_p=chance.choice([1.0, 0.9]),
            top_k=chance.choice([-1, 20]),
            repetition_penalty=chance.choice([1.0, 1.1]),
            max_tokens=chance.choice([1, 5, 14, 30]),
            stop=("e",) if chance.random() < 0.2 else (),
            ignore_eos=chance.random() < 0.3,
            seed=seed,
        )
        talker = replace(
            DEFAULT_STAGE_PARAMS[1],
            temperature=chance.choice([0.0, 0.8]),
            min_tokens=chance.choice([0, 4]),
            max_tokens=chance.choice([10, 27, 60]),
            seed=seed + 1,
        )
        return (thinker, talker, replace(DEFAULT_STAGE_PARAMS[2], seed=seed + 2))

    def _expect(self, seed: int) -> list[RequestEvent]:
        request = self.make(seed)
        vocoder = self.vocoder if request.voice is not None else None
        chat = ChatRequest(
            prompt=request.prompt,
            sampling=request.sampling,
            vocoder=vocoder,
            handoff=request.handoff,
            voice_in_chunks=True,
        )
        return list(self.generator.run(chat))


@pytest.fixture(scope="module")
def requests(model: OmniModel, voice: PreparedVoice) -> Requests:
    return Requests(model, voice)


def samples_of(events: list[RequestEvent]) -> NDArray[np.float32]:
    chunks = [event.samples for event in events if isinstance(event, AudioChunk)]
    return np.concatenate(chunks) if chunks else np.zeros(0, np.float32)


def check_same(events: list[RequestEvent], wanted: list[RequestEvent]) -> None:
    got, want = events[-1], wanted[-1]
    assert isinstance(want, Finished)
    assert isinstance(got, Finished), got
    assert got.token_ids == want.token_ids
    assert got.text == want.text == "".join(event.text for event in events if isinstance(event, TextDelta))
    assert got.finish_reason == want.finish_reason
    assert got.codec_ids == want.codec_ids
    assert got.speech_finish_reason == want.speech_finish_reason
    heard, expected = samples_of(events), samples_of(wanted)
    assert len(heard) == len(expected) == 960 * len(got.codec_ids)
    if len(heard):
        assert np.abs(heard - expected).max() < MAX_SAMPLE_ERROR


def collect(handles: list[RequestHandle]) -> list[list[RequestEvent]]:
    with ThreadPoolExecutor(len(handles)) as pool:
        return list(pool.map(list, handles))


def check_nothing_is_left(engine: LocalEngine, settle: Callable[[], object] = lambda: None) -> None:
    settle()
    left = engine.loop.snapshot()
    held = (
        "requests",
        "sequences",
        "streams",
        "slots_lent",
        "slots_retired",
        "blocks_used",
        "num_settling",
        "in_flight",
    )
    assert {name: value for name, value in left.items() if name.endswith(held) and value} == {}
    assert engine.orchestrator.num_requests == 0


@pytest.mark.parametrize(("first_seed", "count"), [(0, 1), (1, 1), (10, 4), (20, 16), (40, 16), (60, 16)])
def test_every_request_gets_the_answer_it_would_get_alone(
    engine: LocalEngine, requests: Requests, first_seed: int, count: int
) -> None:
    seeds = range(first_seed, first_seed + count)
    answers = collect([engine.submit(requests.make(seed)) for seed in seeds])
    for seed, events in zip(seeds, answers, strict=True):
        check_same(events, requests.expected(seed))
    assert sum(isinstance(event, (Finished, Failed, Aborted)) for events in answers for event in events) == count
    check_nothing_is_left(engine)


@pytest.mark.parametrize("handoff", list(Handoff))
def test_more_requests_than_rows_wait_their_turn(model: OmniModel, requests: Requests, handoff: Handoff) -> None:
    with LocalEngine(model, layout(rows=2)) as engine:
        engine.start()
        made = [replace(requests.make(seed), handoff=handoff) for seed in range(20, 28)]
        for events, request in zip(collect([engine.submit(request) for request in made]), made, strict=True):
            if request == requests.make(int(request.request_id)):
                check_same(events, requests.expected(int(request.request_id)))
            assert isinstance(events[-1], Finished)
        check_nothing_is_left(engine)


@pytest.mark.parametrize("use_prefix_cache", [False, True])
def test_answers_do_not_depend_on_the_prefix_cache_or_on_preemption(
    model: OmniModel, requests: Requests, use_prefix_cache: bool
) -> None:
    # 33 blocks of 16 tokens: a few prompts with media fill them.
    config = layout(kv_bytes=33 * 16 * 1024, max_model_len=512, enable_prefix_caching=use_prefix_cache)
    with LocalEngine(model, config) as engine:
        engine.start()
        for _ in range(2):
            answers = collect([engine.submit(requests.make(seed)) for seed in range(20, 36)])
            for seed, events in zip(range(20, 36), answers, strict=True):
                check_same(events, requests.expected(seed))
        snapshot = engine.snapshot()
        assert (snapshot["thinker.prefix_hit_tokens"] > 0) == use_prefix_cache
        assert snapshot["thinker.preemptions"] > 0
        check_nothing_is_left(engine)


@pytest.mark.parametrize("window_steps", [1, 2, 4, 8, 25, 28])
def test_answers_do_not_depend_on_the_step_window_or_on_when_chunks_leave(
    model: OmniModel, requests: Requests, window_steps: int
) -> None:
    config = layout(rows=4)
    thinker, *speech = config.stages
    config = replace(
        config,
        stages=(thinker, *(replace(stage, async_chunk=window_steps != 4) for stage in speech)),
        optimizations=replace(config.optimizations, talker_window_steps=window_steps),
    )
    with LocalEngine(model, config) as engine:
        engine.start()
        seeds = range(20, 28)
        for seed, events in zip(seeds, collect([engine.submit(requests.make(seed)) for seed in seeds]), strict=True):
            check_same(events, requests.expected(seed))
        assert (engine.counters.used["talker_step_window"] > 0) == (window_steps > 1)


class Stepped:
    """An engine whose loop and front run only when told to, on the test's thread."""

    def __init__(self, model: OmniModel) -> None:
        self.engine = LocalEngine(model, layout(rows=4), executor=Inline())
        self.engine.deliver_inline()

    def step(self, times: int = 1) -> None:
        for _ in range(times):
            self.engine.loop.step()

    def finish(self) -> None:
        while self.engine.orchestrator.num_requests:
            self.step()
        self.step(3)


class Inline(ThreadPoolExecutor):
    """Runs what is submitted at once."""

    def __init__(self) -> None:
        super().__init__(1)

    def submit(self, fn, /, *args, **kwargs):  # type: ignore[no-untyped-def]
        fn(*args, **kwargs)


def test_requests_join_and_leave_at_random_without_touching_the_others(model: OmniModel, requests: Requests) -> None:
    stepped, chance = Stepped(model), random.Random(3)
    alive: dict[int, RequestHandle] = {}
    seeds = list(range(20, 50))
    while seeds or stepped.engine.orchestrator.num_requests:
        if seeds and chance.random() < 0.3:
            seed = seeds.pop(0)
            alive[seed] = stepped.engine.submit(requests.make(seed))
        if alive and chance.random() < 0.02:
            alive.pop(chance.choice(list(alive))).abort()
        stepped.step()
    for seed, handle in alive.items():
        check_same(list(handle), requests.expected(seed))
    assert 15 <= len(alive) < 30
    check_nothing_is_left(stepped.engine, lambda: stepped.step(3))
    stepped.engine.close()


def test_a_thousand_aborts_leave_nothing_behind(model: OmniModel, requests: Requests) -> None:
    threads_before = threading.active_count()
    stepped, chance = Stepped(model), random.Random(5)
    running: list[tuple[int, RequestHandle]] = []  # the step at which each is aborted
    num_steps = num_aborted = 0
    ends: list[RequestEvent] = []
    while num_aborted < 1_000:
        if len(running) < 8:
            request = requests.make(chance.randrange(12), name=f"{num_aborted}-{num_steps}-{len(running)}-")
            running.append((num_steps + chance.choice([0, 1, 2, 3, 5, 8, 13, 21, 34]), stepped.engine.submit(request)))
            continue
        stepped.step()
        num_steps += 1
        for due in [item for item in running if item[0] < num_steps]:
            running.remove(due)
            due[1].abort()
            num_aborted += 1
            ends.append(list(due[1])[-1])
    for _, handle in running:
        handle.abort()
    assert sum(isinstance(end, Aborted) for end in ends) > 500
    assert {type(end) for end in ends} <= {Aborted, Finished}
    check_nothing_is_left(stepped.engine, lambda: stepped.step(3))
    stepped.engine.close()
    assert threading.active_count() == threads_before


def test_aborts_from_other_threads_at_any_event_leave_nothing_behind(engine: LocalEngine, requests: Requests) -> None:
    chance = random.Random(7)

    def run(number: int) -> RequestEvent:
        handle = engine.submit(requests.make(20 + number % 16, name=f"{number}-"))
        due, events = chance.randrange(12), []
        for event in handle:
            if len(events) == due:
                handle.abort()
            events.append(event)
        return events[-1]

    with ThreadPoolExecutor(12) as pool:
        ends = list(pool.map(run, range(60)))
    assert {type(end) for end in ends} == {Aborted, Finished}
    check_nothing_is_left(engine, lambda: [engine.snapshot() for _ in range(3)])


def test_a_poisoned_request_ends_alone(
    engine: LocalEngine, requests: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode = MediaEncoder.encode

    def spoil(encoder: MediaEncoder, request: ThinkerRequest) -> tuple[MediaRows, ...]:
        media = encode(encoder, request)
        if request.request_id == "spoilt":
            media = tuple(replace(item, rows=item.rows * float("nan")) for item in media)
        if request.request_id == "unlucky":
            raise RuntimeError("out of memory")
        return media

    monkeypatch.setattr(MediaEncoder, "encode", spoil)
    fine = requests.build((AudioPart(np.full(16_000, 0.1, np.float32)), TextPart("Hello")))
    broken = requests.build((AudioPart(np.full(16_000, np.nan, np.float32)), TextPart("Hello")))
    good = [engine.submit(requests.make(seed)) for seed in range(20, 28)]
    bad = [
        engine.submit(replace(requests.make(11), request_id=name, prompt=prompt))
        for name, prompt in (("spoilt", fine), ("unlucky", fine), ("broken", broken))
    ]
    for seed, events in zip(range(20, 28), collect(good), strict=True):
        check_same(events, requests.expected(seed))
    ends = [events[-1] for events in collect(bad)]
    assert all(isinstance(end, Failed) for end in ends), ends
    errors = [(end.stage, str(end.error)) for end in ends if isinstance(end, Failed)]
    assert [stage for stage, _ in errors] == ["thinker", "thinker", None]
    for (_, error), words in zip(errors, ("not finite", "out of memory", "not finite"), strict=True):
        assert words in error
    check_nothing_is_left(engine)


def test_what_cannot_be_honoured_is_refused_at_once(engine: LocalEngine, requests: Requests) -> None:
    handle = engine.submit(requests.make(20))
    with pytest.raises(StateError, match="in flight already"):
        engine.submit(requests.make(20))
    assert isinstance(list(handle)[-1], Finished)


def test_too_many_requests_are_refused_and_a_closed_engine_ends_all(model: OmniModel, requests: Requests) -> None:
    engine = LocalEngine(model, layout(rows=2), max_requests=3)
    engine.start()
    handles = [engine.submit(requests.make(seed)) for seed in range(20, 23)]
    with pytest.raises(CapacityError, match="3 requests"):
        engine.submit(requests.make(23))
    engine.close()
    assert all(isinstance(list(handle)[-1], (Aborted, Finished)) for handle in handles)
    with pytest.raises(StateError, match="closed"):
        engine.submit(requests.make(23))


def test_text_ends_and_reasons_of_both_twins_cover_the_interesting_cases(requests: Requests) -> None:
    ends = [requests.expected(seed)[-1] for seed in range(20, 36)]
    reasons = {(end.finish_reason, end.speech_finish_reason) for end in ends if isinstance(end, Finished)}
    assert {reason for reason, _ in reasons} == {FinishReason.STOP, FinishReason.LENGTH}
    assert {reason for _, reason in reasons} == {None, FinishReason.STOP, FinishReason.LENGTH}
