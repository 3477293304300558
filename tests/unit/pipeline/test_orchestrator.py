import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import replace

import numpy as np
import pytest

from antiphon.audio.voice import VoiceFeatures
from antiphon.core.errors import CapacityError, ContextLengthError, EngineError, MediaError, StateError
from antiphon.core.handoff import Handoff
from antiphon.core.outputs import FinishReason
from antiphon.core.sampling import DEFAULT_STAGE_PARAMS, SamplingParams
from antiphon.pipeline.async_events import events_of
from antiphon.pipeline.events import Aborted, AudioChunk, Failed, Finished, RequestEvent, TextDelta
from antiphon.pipeline.messages import (
    Abort,
    Command,
    RequestFailed,
    SpeechSamples,
    TalkerRequest,
    TextEnd,
    TextTokens,
    ThinkerRequest,
    VoiceRequest,
    WorkerDied,
)
from antiphon.pipeline.orchestrator import Orchestrator
from antiphon.pipeline.request import GenerationRequest
from antiphon.pipeline.request_checks import RequestLimits
from antiphon.pipeline.voice_book import PreparedVoice
from antiphon.prompt.chat_prompt import ChatPrompt
from antiphon.prompt.tokenizer import Tokenizer

TOKENIZER = Tokenizer.placeholder(1_000)
VOICE = PreparedVoice("v", VoiceFeatures(np.zeros(1, np.int64), np.zeros(3, np.float32), np.zeros((2, 4), np.float32)))
SAMPLING = (SamplingParams(max_tokens=20, seed=1), *DEFAULT_STAGE_PARAMS[1:])


class Manual(Executor):
    """Runs what was submitted when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], object]] = []

    def submit(self, fn, /, *args, **kwargs):  # type: ignore[no-untyped-def]
        self.waiting.append(lambda: fn(*args, **kwargs))
        return Future()

    def run(self) -> None:
        waiting, self.waiting = self.waiting, []
        for action in waiting:
            action()


class World:
    """An orchestrator between a hand-moved clock and stages that only write down what they are sent."""

    def __init__(self, *, max_requests: int = 4) -> None:
        self.now_s = 100.0
        self.sent: list[tuple[str, Command]] = []
        self.broken: dict[str, Exception] = {}
        self.pool = Manual()
        self.front = Orchestrator(
            {name: self._port(name) for name in ("thinker", "talker", "code2wav")},
            TOKENIZER,
            limits=RequestLimits(vocab_size=1_000, thinker_positions=50, talker_positions=50),
            num_mel_bins=80,
            clock=lambda: self.now_s,
            max_requests=max_requests,
            executor=self.pool,
            replica_of=lambda _request_id, stage: {"talker": 3}.get(stage, 0),
        )

    def _port(self, name: str) -> Callable[[Command], None]:
        def send(command: Command) -> None:
            if name in self.broken:
                raise self.broken[name]
            self.sent.append((name, command))

        return send

    def text(self, name: str, *, reason: FinishReason = FinishReason.STOP) -> None:
        self.front.receive(TextTokens(request_id=name, epoch=0, ids=(300,)))
        self.front.receive(TextEnd(request_id=name, epoch=0, reason=reason, stop_id=None, num_cached_tokens=0))

    def samples(self, name: str, *, epoch: int = 0, is_last: bool = True, count: int = 960) -> None:
        values = np.zeros(count, np.float32)
        self.front.receive(SpeechSamples(request_id=name, epoch=epoch, samples=values, is_last=is_last))

    @property
    def aborted(self) -> list[str]:
        return [stage for stage, command in self.sent if isinstance(command, Abort)]


@pytest.fixture
def world() -> World:
    return World()


def make(name: str = "a", *, spoken: bool = False, **fields: object) -> GenerationRequest:
    request = GenerationRequest(
        request_id=name, prompt=ChatPrompt(ids=[5, 6]), sampling=SAMPLING, voice=VOICE if spoken else None
    )
    return replace(request, **fields)  # type: ignore[arg-type]


def test_the_stages_behind_the_thinker_hear_of_a_request_first(world: World) -> None:
    world.front.submit(make(spoken=True, handoff=Handoff.STREAM))
    assert world.sent == []
    world.pool.run()
    assert [stage for stage, _ in world.sent] == ["code2wav", "talker", "thinker"]
    voice, talker, thinker = (command for _, command in world.sent)
    assert isinstance(voice, VoiceRequest)
    assert isinstance(talker, TalkerRequest)
    assert isinstance(thinker, ThinkerRequest)
    assert (voice.voice_key, talker.handoff, thinker.handoff, thinker.ids) == (
        "v",
        Handoff.STREAM,
        Handoff.STREAM,
        (5, 6),
    )
    assert {command.deadline_s for command in (voice, talker, thinker)} == {100.0}


def test_text_alone_touches_the_thinker_only(world: World) -> None:
    handle = world.front.submit(make())
    world.pool.run()
    assert [stage for stage, _ in world.sent] == ["thinker"]
    world.text("a")
    delta, finished = list(handle)
    assert delta == TextDelta(" w300")
    assert isinstance(finished, Finished)
    assert world.front.num_requests == 0
    assert world.aborted == []


def test_a_request_waits_until_its_features_are_there_and_knows_its_replicas(world: World) -> None:
    handle = world.front.submit(make(spoken=True))
    assert world.front.num_waiting == 1
    world.now_s += 0.25
    world.pool.run()
    assert world.front.num_waiting == 0
    world.text("a")
    world.samples("a")
    finished = list(handle)[-1]
    assert isinstance(finished, Finished)
    assert (finished.metrics.queue_wait_s, finished.metrics.replicas) == (0.25, (0, 3, 0))


def test_a_spoken_request_ends_once_with_its_last_samples(world: World) -> None:
    handle = world.front.submit(make(spoken=True))
    world.pool.run()
    world.text("a")
    world.now_s = 101.0
    world.samples("a", is_last=False)
    world.samples("a")
    world.samples("a")
    kinds = [type(event) for event in handle]
    assert kinds == [TextDelta, AudioChunk, AudioChunk, Finished]
    assert handle.take(0) is None


def test_stale_outputs_and_those_for_nobody_are_dropped(world: World) -> None:
    handle = world.front.submit(make(spoken=True))
    world.pool.run()
    world.samples("a", epoch=1)
    world.samples("b")
    assert handle.take(0) is None


@pytest.mark.parametrize("is_prepared", [True, False])
def test_an_abort_ends_the_request_in_every_stage_it_has_reached(world: World, is_prepared: bool) -> None:
    handle = world.front.submit(make(spoken=True))
    if is_prepared:
        world.pool.run()
    handle.abort()
    handle.abort()
    assert list(handle) == [Aborted()]
    assert world.aborted == (["code2wav", "talker", "thinker"] if is_prepared else [])
    world.pool.run()
    world.text("a")
    assert len(world.sent) == (6 if is_prepared else 0)
    assert handle.take(0) is None


def test_a_stage_that_gives_up_ends_the_request_with_its_own_error(world: World) -> None:
    handle = world.front.submit(make(spoken=True))
    world.pool.run()
    world.front.receive(RequestFailed(request_id="a", epoch=0, stage="code2wav", code="bad_media", message="voice"))
    (end,) = list(handle)
    assert isinstance(end, Failed)
    assert (type(end.error), str(end.error), end.stage) == (MediaError, "voice", "code2wav")
    assert set(world.aborted) == {"thinker", "talker", "code2wav"}


def test_a_prompt_that_cannot_be_prepared_fails_alone(world: World) -> None:
    clip = np.full(16_000, np.nan, np.float32)
    bad = world.front.submit(make("bad", prompt=ChatPrompt(ids=[1] * 12, audio_bounds=[(0, 10)], clips=[clip])))
    good = world.front.submit(make("good"))
    world.pool.run()
    (end,) = list(bad)
    assert isinstance(end, Failed)
    assert isinstance(end.error, MediaError)
    world.text("good")
    assert isinstance(list(good)[-1], Finished)


def test_a_full_worker_fails_the_request_and_frees_what_it_had(world: World) -> None:
    world.broken["talker"] = CapacityError("full")
    handle = world.front.submit(make(spoken=True))
    world.pool.run()
    (end,) = list(handle)
    assert isinstance(end, Failed)
    assert end.error.code == "capacity_exceeded"
    assert [type(command) for _, command in world.sent] == [VoiceRequest, Abort]
    assert world.front.num_requests == 0


def test_a_dead_worker_fails_the_requests_that_need_it(world: World) -> None:
    spoken, text = world.front.submit(make("spoken", spoken=True)), world.front.submit(make("text"))
    world.pool.run()
    world.broken["talker"] = StateError("gone")
    world.front.receive(WorkerDied(stages=("talker",), message="killed"))
    (end,) = list(spoken)
    assert isinstance(end, Failed)
    assert (type(end.error), end.stage) == (EngineError, "talker")
    with pytest.raises(EngineError, match="talker stage has died: killed"):
        world.front.submit(make("other", spoken=True))
    world.text("text")
    assert isinstance(list(text)[-1], Finished)
    world.front.revive(("talker",))
    world.front.submit(make("other", spoken=True))


def test_a_request_that_is_never_read_ends_when_its_buffer_is_full(world: World) -> None:
    handle = world.front.submit(make(spoken=True))
    world.pool.run()
    for _ in range(5):
        world.samples("a", is_last=False, count=4_000_000)
    assert world.front.num_requests == 0
    end = list(handle)[-1]
    assert isinstance(end, Failed)
    assert "too slowly" in str(end.error)


def test_requests_are_refused_by_name(world: World) -> None:
    world.front.submit(make("a"))
    with pytest.raises(StateError, match="a is in flight"):
        world.front.submit(make("a"))
    with pytest.raises(ContextLengthError, match="60 tokens"):
        world.front.submit(make("b", prompt=ChatPrompt(ids=[1] * 60)))
    for name in "bcd":
        world.front.submit(make(name))
    with pytest.raises(CapacityError, match="4 requests"):
        world.front.submit(make("e"))


def test_closing_ends_everything(world: World) -> None:
    handles = [world.front.submit(make(name)) for name in "ab"]
    world.front.close()
    assert [list(handle) for handle in handles] == [[Aborted()], [Aborted()]]
    with pytest.raises(StateError, match="closed"):
        world.front.submit(make("c"))


def test_a_request_without_a_seed_draws_a_fresh_one(world: World) -> None:
    seeds = set()
    for name in "ab":
        world.front.submit(make(name, sampling=(replace(SAMPLING[0], seed=None), *SAMPLING[1:])))
    world.pool.run()
    for _, command in world.sent:
        assert isinstance(command, ThinkerRequest)
        seeds.add(command.seed)
    assert len(seeds) == 2


def test_asyncio_reads_the_same_events(world: World) -> None:
    async def read() -> list[RequestEvent]:
        handle = world.front.submit(make())
        world.pool.run()
        asyncio.get_running_loop().call_soon(world.text, "a")
        return [event async for event in events_of(handle)]

    delta, finished = asyncio.run(read())
    assert delta == TextDelta(" w300")
    assert isinstance(finished, Finished)


def test_a_cancelled_reader_aborts_its_request(world: World) -> None:
    async def read() -> None:
        handle = world.front.submit(make())
        world.pool.run()
        reader = asyncio.ensure_future(anext(events_of(handle)))
        await asyncio.sleep(0)
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)

    asyncio.run(read())
    assert world.aborted == ["thinker"]
    assert world.front.num_requests == 0
