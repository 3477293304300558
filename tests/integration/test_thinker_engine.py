"""The Thinker engine against the eager generator, on a tiny model of random weights."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
import torch

from antiphon.config.checkpoint_files import shipped_model_config
from antiphon.core.sampling import SamplingParams
from antiphon.engine.context_window import Cut
from antiphon.engine.counter_noise import CounterNoise
from antiphon.engine.counters import Counters
from antiphon.engine.device_stream import DeviceStream
from antiphon.engine.settings import ThinkerSettings
from antiphon.engine.thinker_engine import ThinkerEngine
from antiphon.engine.thinker_messages import (
    MediaRows,
    ThinkerJob,
    ThinkerOutput,
    ThinkerPiece,
    ThinkerSampling,
    TurnEnd,
)
from antiphon.models.thinker.thinker import Thinker
from antiphon.pipeline.eager.text_sampling import TextSampler
from antiphon.pipeline.eager.thinker import ThinkerSequence

VOCAB = 300
STOPS = (7, 8, 9, 10, 11, 12, 13, 14)  # ends a fair share of the sampled answers early
SETTINGS = ThinkerSettings(max_batched_tokens=64, max_model_len=128, kv_cache_blocks=256)
SAMPLINGS = (
    ThinkerSampling(max_tokens=12, end_ids=STOPS),
    ThinkerSampling(max_tokens=12, end_ids=STOPS, repetition_penalty=1.3, min_tokens=6),
    ThinkerSampling(
        max_tokens=14, end_ids=STOPS, temperature=0.7, top_p=0.8, top_k=100, repetition_penalty=1.02, seed=3
    ),
    ThinkerSampling(max_tokens=9, end_ids=STOPS, temperature=1.0, top_p=0.9, min_p=0.01, seed=2**62 + 5),
    ThinkerSampling(max_tokens=9, temperature=1.2, stop_token_ids=STOPS, frequency_penalty=0.5, presence_penalty=0.3),
    ThinkerSampling(max_tokens=9, temperature=1.2, top_k=20, end_ids=STOPS, ignore_eos=True, seed=11),
)


@pytest.fixture(scope="module")
def thinker() -> Thinker:
    real = shipped_model_config()
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_layers": 2, "num_heads": 4}
    config = replace(
        real,
        vocab_size=VOCAB,
        num_queries=4,
        llm=replace(real.llm, **sizes, num_kv_heads=2, head_dim=16),
        vision=replace(real.vision, hidden_size=16, intermediate_size=24, num_layers=1, num_heads=2, table_side=8),
        audio=replace(real.audio, hidden_size=16, intermediate_size=24, num_layers=1, num_heads=2),
    )
    torch.manual_seed(1)
    model = Thinker(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.25)
    return model.eval().requires_grad_(False)


@dataclass
class Answer:
    """What came for one turn."""

    ids: list[int] = field(default_factory=list)
    row_ids: list[int] = field(default_factory=list)
    rows: list[torch.Tensor] = field(default_factory=list)
    reason: TurnEnd | None = None
    stop_id: int | None = None


def text_sampler(sampling: ThinkerSampling, first_draw: int = 0) -> TextSampler:
    params = SamplingParams(
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        min_p=sampling.min_p,
        repetition_penalty=sampling.repetition_penalty,
        frequency_penalty=sampling.frequency_penalty,
        presence_penalty=sampling.presence_penalty,
        max_tokens=sampling.max_tokens,
        min_tokens=sampling.min_tokens,
        stop_token_ids=sampling.stop_token_ids,
        ignore_eos=sampling.ignore_eos,
    )
    noise = CounterNoise(sampling.seed, first_step=first_draw)
    return TextSampler(params, end_ids=sampling.end_ids, vocab_size=VOCAB, noise=noise)


def embed(thinker: Thinker, piece: ThinkerPiece) -> torch.Tensor:
    embeds = thinker.embed(torch.tensor(piece.ids))
    for media in piece.media:
        embeds[media.start : media.start + len(media.rows)] = media.rows
    return embeds


def eager_turn(
    sequence: ThinkerSequence, piece: ThinkerPiece, sampling: ThinkerSampling, first_draw: int = 0
) -> Answer:
    """The slow twin: batch 1, contiguous cache, one token at a time."""
    sampler, answer = text_sampler(sampling, first_draw), Answer()
    last = sequence.feed(embed(sequence.thinker, piece))[-1]
    while True:
        token = sampler.draw(sequence.thinker.logits(last), answer.ids)
        if token in sampler.stop_ids:
            answer.reason, answer.stop_id = TurnEnd.STOP, token
            return answer
        answer.ids.append(token)
        last = sequence.feed_ids([token])[-1]
        answer.row_ids.append(token)
        answer.rows.append(last)
        if len(answer.ids) == sampling.max_tokens:
            answer.reason = TurnEnd.LENGTH
            return answer


class Driver:
    """Runs an engine, and gathers its outputs by sequence and turn."""

    def __init__(self, thinker: Thinker, settings: ThinkerSettings) -> None:
        device = torch.device("cpu")
        self.counters = Counters()
        self.engine = ThinkerEngine(
            thinker,
            settings,
            device=device,
            dtype=torch.float32,
            counters=self.counters,
            stream=DeviceStream(device),
            clock=lambda: 0.0,
        )
        self.turns: dict[str, list[Answer]] = {}
        self.ended: dict[str, int] = {}
        self.outputs: list[ThinkerOutput] = []

    def collect(self) -> None:
        for output in self.engine.collect():
            self.outputs.append(output)
            turns = self.turns.setdefault(output.seq_id, [Answer()])
            answer = turns[-1]
            answer.ids += output.new_ids
            answer.row_ids += output.row_ids
            if output.hidden is not None:
                answer.rows += list(output.hidden)
            if output.has_ended_turn:
                answer.reason, answer.stop_id = output.finish_reason, output.stop_id
                turns.append(Answer())
            if output.is_last:
                self.ended[output.seq_id] = self.ended.get(output.seq_id, 0) + 1

    def run(self, *, ahead: int = 2) -> None:
        """Until nothing is left to do."""
        for _ in range(5000):
            launched = [self.engine.launch() for _ in range(ahead)]
            self.collect()
            if not any(launched) and not self.engine.has_work:
                return
        raise AssertionError("the engine does not come to an end")


@pytest.fixture
def drive(thinker: Thinker) -> Callable[..., Driver]:
    def make(**settings: object) -> Driver:
        return Driver(thinker, replace(SETTINGS, **settings))  # type: ignore[arg-type]

    return make


def make_job(chance: random.Random, name: str, *, wants_hidden: bool = True) -> ThinkerJob:
    num_ids = chance.randint(1, 60)
    ids = [chance.randrange(VOCAB) for _ in range(num_ids)]
    ids[: min(20, num_ids)] = range(100, 100 + min(20, num_ids))  # a shared beginning
    media: tuple[MediaRows, ...] = ()
    if num_ids > 40:
        content = chance.randrange(2)
        rows = torch.randn(8, 32, generator=torch.Generator().manual_seed(content))
        media = (MediaRows(22, rows, bytes([content])),)
    return ThinkerJob(
        seq_id=name,
        ids=tuple(ids),
        media=media,
        sampling=chance.choice(SAMPLINGS),
        wants_hidden=wants_hidden,
        deadline_s=chance.random(),
    )


def expect(thinker: Thinker, job: ThinkerJob, answer: Answer) -> None:
    assert job.sampling is not None
    with torch.inference_mode():
        wanted = eager_turn(ThinkerSequence(thinker), job, job.sampling)
    assert answer.ids == wanted.ids
    assert (answer.reason, answer.stop_id) == (wanted.reason, wanted.stop_id)
    if job.wants_hidden:
        assert answer.row_ids == wanted.ids
        assert len(answer.rows) == len(wanted.rows)
        if wanted.rows:
            torch.testing.assert_close(torch.stack(answer.rows), torch.stack(wanted.rows), atol=1e-4, rtol=1e-4)


def expect_clean(driver: Driver) -> None:
    gauges = driver.engine.snapshot()
    assert (gauges["blocks_used"], gauges["host_blocks_used"], gauges["num_running"]) == (0, 0, 0)
    driver.engine.launch()
    assert driver.engine.snapshot()["launches_in_flight"] == 0


@pytest.mark.parametrize("batch", [1, 2, 5, 16])
@pytest.mark.parametrize("run_ahead", [False, True])
def test_a_batch_gives_what_each_request_gives_alone(
    thinker: Thinker, drive: Callable[..., Driver], batch: int, run_ahead: bool
) -> None:
    chance, driver = random.Random(batch), drive(use_run_ahead=run_ahead)
    jobs = [make_job(chance, f"s{index}", wants_hidden=bool(index % 2)) for index in range(batch)]
    for job in jobs:
        driver.engine.admit(job)
    driver.run()
    for job in jobs:
        expect(thinker, job, driver.turns[job.seq_id][0])
    assert driver.ended == {job.seq_id: 1 for job in jobs}
    assert (driver.counters.used["thinker_run_ahead"] > 0) == run_ahead
    expect_clean(driver)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"use_prefix_cache": True},
        {"max_batched_tokens": 20, "max_num_seqs": 4},
        {"kv_cache_blocks": 10, "max_num_seqs": 6},
        {"kv_cache_blocks": 10, "max_num_seqs": 6, "use_prefix_cache": True, "max_batched_tokens": 23},
        {"block_size": 4, "max_num_seqs": 3},
    ],
    ids=["plain", "prefix cache", "small chunks", "few blocks", "everything", "small blocks"],
)
def test_requests_that_come_and_go_at_random_get_the_same_answers(
    thinker: Thinker, drive: Callable[..., Driver], settings: dict[str, int]
) -> None:
    chance, driver = random.Random(5), drive(**settings)
    jobs = [make_job(chance, f"s{index}", wants_hidden=chance.random() < 0.5) for index in range(24)]
    waiting = list(jobs)
    while waiting or driver.engine.has_work:
        for _ in range(chance.choice((0, 0, 1, 3))):
            if waiting:
                driver.engine.admit(waiting.pop())
        for _ in range(chance.randint(0, 2)):
            driver.engine.launch()
        if chance.random() < 0.8:
            driver.collect()
    driver.collect()
    for job in jobs:
        expect(thinker, job, driver.turns[job.seq_id][0])
    assert driver.ended == {job.seq_id: 1 for job in jobs}
    gauges = driver.engine.snapshot()
    assert (gauges["preemptions"] > 0) == ("kv_cache_blocks" in settings)
    assert (gauges["prefix_hit_tokens"] > 0) == ("use_prefix_cache" in settings)
    expect_clean(driver)


def test_a_resumable_sequence_goes_on_where_it_was(thinker: Thinker, drive: Callable[..., Driver]) -> None:
    driver, eager = drive(), ThinkerSequence(thinker)
    rule = replace(SAMPLINGS[2], seed=21)
    job = ThinkerJob(seq_id="a", ids=tuple(range(30, 60)), sampling=rule, wants_hidden=True, is_resumable=True)
    pieces = [
        ThinkerPiece(ids=(5, 6, 20), decode=False),
        ThinkerPiece(ids=tuple(range(60, 77)), wants_hidden=True, epoch=2),
        ThinkerPiece(ids=(99,), sampling=SAMPLINGS[0], wants_hidden=True, epoch=3),
    ]
    driver.engine.admit(job)
    for piece in pieces:
        driver.engine.extend("a", piece)
    driver.run()
    assert driver.engine.snapshot()["num_parked"] == 1
    driver.engine.close_input("a")
    driver.run()
    assert driver.ended == {"a": 1}
    first, second, third = driver.turns["a"][:3]
    with torch.inference_mode():
        wanted = eager_turn(eager, job, rule)
        assert (first.ids, first.stop_id) == (wanted.ids, wanted.stop_id)
        draws = len(wanted.ids) + (wanted.reason is TurnEnd.STOP)
        eager.feed_ids(pieces[0].ids)
        wanted = eager_turn(eager, pieces[1], rule, draws)
        assert (second.ids, second.stop_id) == (wanted.ids, wanted.stop_id)
        wanted = eager_turn(eager, pieces[2], SAMPLINGS[0])
        assert (third.ids, third.stop_id) == (wanted.ids, wanted.stop_id)
    torch.testing.assert_close(torch.stack(third.rows), torch.stack(wanted.rows), atol=1e-4, rtol=1e-4)
    expect_clean(driver)


def test_a_parked_sequence_comes_back_from_the_host(thinker: Thinker, drive: Callable[..., Driver]) -> None:
    driver, eager = drive(kv_cache_blocks=8, host_spill_blocks=16), ThinkerSequence(thinker)
    rule = ThinkerSampling(max_tokens=5)
    job = ThinkerJob(seq_id="a", ids=tuple(range(50)), sampling=rule, wants_hidden=True, is_resumable=True)
    driver.engine.admit(job)
    driver.run()
    driver.engine.admit(ThinkerJob(seq_id="b", ids=tuple(range(100, 190)), sampling=rule))
    driver.run()
    assert driver.engine.snapshot()["num_spilled"] == 1
    piece = ThinkerPiece(ids=(3, 4), wants_hidden=True)
    driver.engine.extend("a", piece)
    driver.run()
    assert driver.engine.snapshot()["rebuilds"] == 0
    with torch.inference_mode():
        assert driver.turns["a"][0].ids == eager_turn(eager, job, rule).ids
        wanted = eager_turn(eager, piece, rule)
    assert driver.turns["a"][1].ids == wanted.ids
    torch.testing.assert_close(torch.stack(driver.turns["a"][1].rows), torch.stack(wanted.rows), atol=1e-4, rtol=1e-4)
    driver.engine.abort("a")
    driver.run()
    expect_clean(driver)


def test_a_cut_context_is_what_the_eager_cut_gives(thinker: Thinker, drive: Callable[..., Driver]) -> None:
    driver, eager = drive(), ThinkerSequence(thinker)
    rule = ThinkerSampling(max_tokens=6)
    job = ThinkerJob(
        seq_id="a", ids=tuple(range(70)), sampling=rule, wants_hidden=True, decode=False, is_resumable=True
    )
    cut = Cut(prefix=(0, 5), refeed_ids=(201, 202, 203), tail=(37, 70), length=41, dropped=())
    driver.engine.admit(job)
    driver.run()
    driver.engine.cut("a", cut)
    piece = ThinkerPiece(ids=(3, 4), wants_hidden=True)
    driver.engine.extend("a", piece)
    driver.run()
    with torch.inference_mode():
        eager.feed_ids(job.ids)
        tail = eager.cache.clone()
        tail.keep([(37, 70)])
        tail.rotate_keys(0, 33, torch.full((33,), -29), thinker.llm.model.rope)
        eager.cache.keep([(0, 5)])
        eager.feed_ids(cut.refeed_ids)
        for layer in range(2):
            k, v = tail.layer(layer)
            eager.cache.append(layer, k.transpose(0, 1), v.transpose(0, 1))
        wanted = eager_turn(eager, piece, rule)
    answer = driver.turns["a"][1]
    assert answer.ids == wanted.ids
    torch.testing.assert_close(torch.stack(answer.rows), torch.stack(wanted.rows), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("run_ahead", [False, True])
def test_a_poisoned_request_ends_alone(thinker: Thinker, drive: Callable[..., Driver], run_ahead: bool) -> None:
    chance, driver = random.Random(9), drive(use_run_ahead=run_ahead, use_prefix_cache=True, max_batched_tokens=24)
    jobs = [make_job(chance, f"s{index}") for index in range(5)]
    rows = torch.full((4, 32), float("nan"))
    poison = ThinkerJob(
        seq_id="bad", ids=tuple(range(200, 230)), media=(MediaRows(3, rows, b"bad"),), sampling=SAMPLINGS[2]
    )
    driver.engine.admit(jobs[0])
    driver.engine.launch()
    driver.engine.admit(poison)
    for job in jobs[1:]:
        driver.engine.admit(job)
    driver.run()
    ends = [output for output in driver.outputs if output.seq_id == "bad"]
    assert [(end.finish_reason, end.is_last, end.new_ids) for end in ends] == [(TurnEnd.ERROR, True, ())]
    assert ends[0].error is not None
    for job in jobs:
        expect(thinker, job, driver.turns[job.seq_id][0])
    late = replace(jobs[1], seq_id="late")
    driver.engine.admit(late)  # on the blocks that held the poison
    driver.run()
    expect(thinker, late, driver.turns["late"][0])
    expect_clean(driver)


def test_aborts_at_any_point_leave_nothing_behind(thinker: Thinker, drive: Callable[..., Driver]) -> None:
    chance = random.Random(4)
    driver = drive(kv_cache_blocks=24, max_num_seqs=5, host_spill_blocks=8, use_prefix_cache=True)
    live: list[str] = []
    survivors: list[ThinkerJob] = []
    for index in range(150):
        job = make_job(chance, f"s{index}")
        if chance.random() < 0.2:
            survivors.append(job)
        elif chance.random() < 0.3:
            job = replace(job, is_resumable=True)
        driver.engine.admit(job)
        if job not in survivors:
            live.append(job.seq_id)
        for _ in range(chance.randint(0, 4)):
            driver.engine.launch()
            if chance.random() < 0.7:
                driver.collect()
        if len(live) > 4:
            driver.engine.abort(live.pop(chance.randrange(len(live))))
    for name in live:
        driver.engine.abort(name)
    driver.run()
    assert set(driver.ended) == {f"s{index}" for index in range(150)}
    assert set(driver.ended.values()) == {1}
    for job in survivors:
        expect(thinker, job, driver.turns[job.seq_id][0])
    expect_clean(driver)


def test_a_turn_that_was_broken_off_keeps_what_was_collected(thinker: Thinker, drive: Callable[..., Driver]) -> None:
    driver, eager = drive(), ThinkerSequence(thinker)
    rule = ThinkerSampling(max_tokens=30)
    driver.engine.admit(ThinkerJob(seq_id="a", ids=tuple(range(9)), sampling=rule, is_resumable=True))
    for _ in range(6):
        driver.engine.launch()
        driver.collect()
    driver.engine.launch()
    driver.engine.park("a")
    piece = ThinkerPiece(ids=(44, 45), wants_hidden=True)
    driver.engine.extend("a", piece)
    driver.run()
    first = driver.turns["a"][0].ids[:6]
    with torch.inference_mode():
        eager.feed_ids(range(9))
        eager.feed_ids(first)
        wanted = eager_turn(eager, piece, rule)
    assert driver.turns["a"][0].ids[6:] == wanted.ids
