"""Duplex units in the Thinker engine against the eager session, unit by unit, on the tiny checkpoint."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from antiphon.core.errors import SamplingError, StateError
from antiphon.engine.context_window import ContextWindow, Cut, Unit, WindowConfig, WindowMode
from antiphon.engine.counter_noise import CounterNoise
from antiphon.engine.counters import Counters
from antiphon.engine.device_stream import DeviceStream
from antiphon.engine.duplex_decision import DecisionIds, DecisionSampling
from antiphon.engine.settings import ThinkerSettings
from antiphon.engine.thinker_engine import ThinkerEngine
from antiphon.engine.thinker_messages import (
    DuplexRule,
    MediaRows,
    ThinkerJob,
    ThinkerOutput,
    ThinkerPiece,
    ThinkerSampling,
    TurnEnd,
)
from antiphon.pipeline.build import build_omni_model
from antiphon.pipeline.eager.duplex import DuplexSession
from antiphon.pipeline.eager.duplex_decider import Decided
from antiphon.pipeline.eager.duplex_input import Rows, UnitEncoder, UnitInput
from antiphon.pipeline.eager.duplex_options import BASE_RULES, DuplexOptions
from antiphon.pipeline.omni_model import OmniModel
from antiphon.prompt.duplex_markup import duplex_forbidden_ids, session_start

SETTINGS = ThinkerSettings(max_batched_tokens=256, max_model_len=1024, kv_cache_blocks=2048, max_num_seqs=24)
BASIC = WindowConfig(mode=WindowMode.BASIC, high_tokens=120, low_tokens=70)
CONTEXT = WindowConfig(mode=WindowMode.CONTEXT, max_units=3, max_previous_ids=9)
SAMPLINGS = (
    DecisionSampling(),
    DecisionSampling(is_greedy=True),
    DecisionSampling(temperature=1.3, top_k=60, top_p=0.95, penalty_window=7, repetition_penalty=1.3),
    DecisionSampling(listen_prob_scale=0.5, listen_top_k=3, length_penalty=0.8),
)


@pytest.fixture(scope="module")
def model(tiny_checkpoint: object) -> OmniModel:
    """The tiny model, with every way to end a unit or a turn among a few dozen favourites."""
    model = build_omni_model(str(tiny_checkpoint), device=torch.device("cpu"))
    special = model.tokenizer.special
    roles = (special.listen, special.speak, special.chunk_eos, special.chunk_tts_eos, special.turn_eos, special.im_end)
    favourites = [*roles, special.tts_bos, special.tts_pad, *model.tokenizer.encode_plain("the sea is calm today")]
    head = model.thinker.llm.lm_head.weight
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        rows = torch.randn(len(favourites), head.shape[1], generator=generator)
        head[favourites] = 5.0 * rows / head.shape[1] ** 0.5
    return model


def rule_for(model: OmniModel, sampling: DecisionSampling, seed: int, *, max_chars: int | None = None) -> DuplexRule:
    special, tokenizer = model.tokenizer.special, model.tokenizer
    ids = DecisionIds(
        chunk_eos=special.chunk_eos,
        turn_eos=special.turn_eos,
        tokenizer_eos=special.im_end,
        forbidden=duplex_forbidden_ids(tokenizer),
    )
    accepts = None
    if max_chars is not None:
        limit = max_chars

        def accepts(collected: tuple[int, ...]) -> bool:
            return len(tokenizer.decode(list(collected), skip_special=True)) < limit

    return DuplexRule(
        sampling=sampling,
        ids=ids,
        listen_id=special.listen,
        tts_bos_id=special.tts_bos,
        chunk_tts_eos_id=special.chunk_tts_eos,
        max_tokens=9,
        seed=seed,
        accepts=accepts,
    )


@dataclass
class Script:
    """What one session is given."""

    sampling: DecisionSampling
    seed: int
    window: WindowConfig = field(default_factory=WindowConfig)
    max_chars: int | None = None
    num_units: int = 8

    def audio(self) -> list[NDArray[np.float32]]:
        chance = np.random.default_rng(self.seed)
        return [chance.normal(0, 0.1, 16_000).astype(np.float32) for _ in range(self.num_units)]

    def forces_listen(self, unit: int) -> bool:
        return (self.seed + unit) % 5 == 3


@dataclass
class Answer:
    """One decided unit."""

    ids: list[int]
    terminator: int
    is_turn_open: bool
    rows: torch.Tensor  # [len(ids), hidden]
    cut: Cut | None


def eager_answers(model: OmniModel, script: Script) -> list[Answer]:
    options = DuplexOptions(
        rules=replace(BASE_RULES, max_unit_chars=script.max_chars),
        window=script.window,
        sampling=script.sampling,
        max_tokens=9,
        generate_audio=False,
    )
    session = DuplexSession(model, options, noise=CounterNoise(script.seed))
    decide = session.decider.decide
    kept: list[Decided] = []
    fed: list[torch.Tensor] = []
    feed = session.decider._feed

    def feed_and_keep(token_id: int) -> torch.Tensor:
        fed.append(feed(token_id))
        return fed[-1]

    session.decider._feed = feed_and_keep  # type: ignore[method-assign]
    session.decider.decide = lambda logits, unit: kept.append(decide(logits, unit=unit)) or kept[-1]  # type: ignore
    answers = []
    session.prepare("hi")
    for unit, audio in enumerate(script.audio()):
        fed.clear()
        session.prefill(UnitInput(audio=audio))
        result = session.generate(force_listen=script.forces_listen(unit))
        assert result.terminator is not None
        assert result.end is not None
        rows = torch.stack(fed) if fed else torch.zeros(0, model.config.llm.hidden_size)
        answers.append(Answer(list(result.decided_ids), result.terminator, session.is_turn_open, rows, result.end.cut))
    return answers


def to_piece(rows: Sequence[Rows], **fields: object) -> ThinkerPiece:
    ids: list[int] = []
    media: list[MediaRows] = []
    for run in rows:
        if isinstance(run.items[0], int):
            ids += [item for item in run.items if isinstance(item, int)]
        else:
            media.append(MediaRows(len(ids), run.embeds))
            ids += [0] * len(run)
    return ThinkerPiece(ids=tuple(ids), media=tuple(media), **fields)  # type: ignore[arg-type]


class Live:
    """One session on the engine: a coroutine that yields when it waits for the end of a turn."""

    def __init__(self, name: str, model: OmniModel, engine: ThinkerEngine, script: Script, *, merges: bool) -> None:
        self.name, self.model, self.engine, self.script = name, model, engine, script
        self.answers: list[Answer] = []
        self.outputs: list[ThinkerOutput] = []
        self.merges = merges  # the end of a unit goes in front of the next one
        self.is_over = False
        self._run = self._live()
        next(self._run)

    def take(self, output: ThinkerOutput) -> None:
        self.outputs.append(output)
        if output.has_ended_turn:
            self.is_over = next(self._run, True) is True

    def _live(self) -> Iterator[None]:
        special, script = self.model.tokenizer.special, self.script
        rule = rule_for(self.model, script.sampling, script.seed, max_chars=script.max_chars)
        markup = session_start(self.model.tokenizer, "hi", has_reference=False)
        prompt = (*markup.prefix, *markup.suffix)
        window = ContextWindow(
            script.window,
            marker_ids=tuple(self.model.tokenizer.encode_plain("\n\nprevious: ")),
            special_ids=self.model.tokenizer.special_ids,
        )
        window.begin(len(markup.prefix), tuple(markup.suffix))
        self.engine.admit(ThinkerJob(seq_id=self.name, ids=prompt, decode=False, is_resumable=True))
        yield
        length, end, is_open = len(prompt), (), False
        encoder = UnitEncoder(self.model)
        for unit, audio in enumerate(script.audio()):
            samples = encoder.take_audio(audio)
            assert not isinstance(samples, str)
            piece = to_piece(encoder.encode(UnitInput(audio=audio), samples), deadline_s=float(unit))
            is_forced = script.forces_listen(unit)
            if is_forced:
                ids = [special.turn_eos] if is_open else []
                terminator, rows = special.listen, torch.zeros(0)
                feed = (*piece.ids, *ids)
                self._extend(replace(piece, ids=(*end, *feed), decode=False, closes_turn=True), shift=len(end))
                yield
                is_open = self.outputs[-1].is_turn_open
            else:
                self.outputs.clear()
                piece = replace(piece, ids=(*end, *piece.ids), duplex=rule, wants_hidden=True, epoch=unit)
                self._extend(piece, shift=len(end))
                yield
                last = self.outputs[-1]
                assert last.finish_reason in (TurnEnd.STOP, TurnEnd.LENGTH)
                assert last.stop_id is not None
                assert {output.epoch for output in self.outputs} == {unit}
                ids = [token for output in self.outputs for token in output.new_ids]
                assert [token for output in self.outputs for token in output.row_ids] == ids
                parts = [output.hidden for output in self.outputs if output.hidden is not None]
                rows = torch.cat(parts) if parts else torch.zeros(0)
                terminator, is_open = last.stop_id, last.is_turn_open
            length += len(piece.ids) - (0 if is_forced else len(end)) + len(ids) + 2
            unit_len = 11 + len(ids) + 2
            end = (terminator, special.unit_end)
            cut = None
            if not self.merges:
                self._extend(ThinkerPiece(ids=end, decode=False), shift=0)
                end = ()
                yield
                is_listen = terminator == special.listen
                collected = () if is_forced else tuple(ids[1:])
                done = Unit(id=unit, length=unit_len, kind="audio", is_listen=is_listen, content_ids=collected)
                cut = window.add(done, length)
                if cut is not None:
                    assert self.engine.can_cut(self.name)
                    self.engine.cut(self.name, cut)
                    length = cut.length
            self.answers.append(Answer(ids, terminator, is_open, rows, cut))
        self.engine.close_input(self.name)
        yield

    def _extend(self, piece: ThinkerPiece, *, shift: int) -> None:
        media = tuple(replace(part, start=part.start + shift) for part in piece.media)
        self.engine.extend(self.name, replace(piece, media=media))


class Driver:
    """An engine, its sessions and its chats."""

    def __init__(self, model: OmniModel, **settings: object) -> None:
        device = torch.device("cpu")
        self.model, self.counters = model, Counters()
        self.engine = ThinkerEngine(
            model.thinker,
            replace(SETTINGS, **settings),  # type: ignore[arg-type]
            device=device,
            dtype=torch.float32,
            counters=self.counters,
            stream=DeviceStream(device),
            clock=lambda: 0.0,
        )
        self.sessions: dict[str, Live] = {}
        self.chats: dict[str, list[int]] = {}
        self.open_chats: set[str] = set()
        self.most_spilled = 0.0

    def start(self, name: str, script: Script, *, merges: bool = False) -> Live:
        self.sessions[name] = Live(name, self.model, self.engine, script, merges=merges)
        return self.sessions[name]

    def chat(self, name: str, sampling: ThinkerSampling) -> None:
        self.chats[name] = []
        self.open_chats.add(name)
        self.engine.admit(ThinkerJob(seq_id=name, ids=tuple(range(40, 70)), sampling=sampling))

    def step(self, *, ahead: int = 2) -> None:
        for _ in range(ahead):
            self.engine.launch()
        for output in self.engine.collect():
            if output.seq_id in self.sessions:
                self.sessions[output.seq_id].take(output)
            else:
                self.chats[output.seq_id] += output.new_ids
            if output.is_last:
                self.open_chats.discard(output.seq_id)

    def run(self) -> None:
        for _ in range(20_000):
            if not self.engine.has_work:
                assert all(session.is_over for session in self.sessions.values())
                assert not self.open_chats
                return
            self.step()
            self.most_spilled = max(self.most_spilled, self.engine.snapshot()["num_spilled"])
        raise AssertionError("the engine does not come to an end")


def without_units(cut: Cut | None) -> Cut | None:
    return None if cut is None else replace(cut, dropped=())


def expect(model: OmniModel, live: Live) -> None:
    wanted = eager_answers(model, live.script)
    for unit, (answer, eager) in enumerate(zip(live.answers, wanted, strict=True)):
        assert answer.ids == eager.ids, unit
        assert (answer.terminator, answer.is_turn_open) == (eager.terminator, eager.is_turn_open), unit
        if not live.script.forces_listen(unit) and len(eager.rows):
            torch.testing.assert_close(answer.rows, eager.rows, atol=1e-4, rtol=1e-4)
        if not live.merges:
            assert without_units(answer.cut) == without_units(eager.cut)


CHATS = (
    ThinkerSampling(max_tokens=20),
    ThinkerSampling(max_tokens=30, temperature=0.8, top_p=0.9, top_k=50, repetition_penalty=1.1, seed=4),
    ThinkerSampling(max_tokens=15, temperature=1.0, seed=5),
)


@pytest.mark.parametrize("run_ahead", [False, True])
@pytest.mark.parametrize("index", range(len(SAMPLINGS)))
def test_a_session_decides_what_the_eager_one_decides(model: OmniModel, index: int, run_ahead: bool) -> None:
    driver = Driver(model, use_run_ahead=run_ahead)
    live = driver.start("a", Script(SAMPLINGS[index], seed=index, num_units=12), merges=bool(index % 2))
    driver.run()
    expect(model, live)
    ends = {answer.terminator for answer in live.answers}
    assert len(ends) > 1
    assert max(len(answer.ids) for answer in live.answers) > 2
    assert (driver.counters.used["thinker_run_ahead"] > 0) == run_ahead
    assert driver.engine.snapshot()["blocks_used"] == 0


def test_sixteen_sessions_that_join_at_random_beside_chats_decide_as_each_does_alone(model: OmniModel) -> None:
    chance, driver = random.Random(3), Driver(model)
    waiting: list[object] = [*range(16), *CHATS]
    chance.shuffle(waiting)
    while waiting:
        for _ in range(chance.randint(0, 3)):
            driver.step(ahead=chance.randint(0, 2))
        entry = waiting.pop()
        if isinstance(entry, int):
            driver.start(f"s{entry}", Script(SAMPLINGS[entry % 4], seed=100 + entry), merges=entry % 3 == 0)
        else:
            assert isinstance(entry, ThinkerSampling)
            driver.chat(f"c{entry.max_tokens}", entry)
    driver.run()
    for live in driver.sessions.values():
        expect(model, live)
    alone = Driver(model)
    for sampling in CHATS:
        alone.chat(f"c{sampling.max_tokens}", sampling)
    alone.run()
    assert driver.chats == alone.chats
    assert driver.engine.snapshot()["blocks_used"] == 0


@pytest.mark.parametrize("window", [BASIC, CONTEXT], ids=["basic", "context"])
@pytest.mark.parametrize("spills", [False, True])
def test_sessions_whose_context_is_cut_decide_as_the_eager_ones(
    model: OmniModel, window: WindowConfig, spills: bool
) -> None:
    rooms = {"kv_cache_blocks": 36, "host_spill_blocks": 256, "max_num_seqs": 2, "max_model_len": 320} if spills else {}
    driver = Driver(model, **rooms)
    for index in range(7):
        driver.start(f"s{index}", Script(SAMPLINGS[index % 4], seed=20 + index, window=window, num_units=9))
    driver.run()
    assert (driver.most_spilled > 0) == spills
    assert driver.engine.snapshot()["rebuilds"] == 0
    assert driver.counters.used["context_cut"] > 0
    for live in driver.sessions.values():
        assert any(answer.cut for answer in live.answers)
        expect(model, live)


@pytest.mark.parametrize("host_blocks", [0, 256])
def test_parked_sessions_that_lose_their_room_between_units_decide_as_before(
    model: OmniModel, host_blocks: int
) -> None:
    rooms = {"kv_cache_blocks": 24, "host_spill_blocks": host_blocks, "max_num_seqs": 4, "max_model_len": 320}
    driver = Driver(model, **rooms, max_batched_tokens=48)
    for index in range(10):
        driver.start(f"s{index}", Script(SAMPLINGS[index % 4], seed=40 + index), merges=bool(index % 2))
    driver.chat("c0", CHATS[1])
    driver.run()
    assert (driver.most_spilled > 0) == (host_blocks > 0)
    assert (driver.engine.snapshot()["preemptions"] > 0) == (host_blocks == 0)
    for live in driver.sessions.values():
        expect(model, live)


def test_a_unit_whose_text_grows_too_long_ends_in_front_of_the_id_that_is_too_much(model: OmniModel) -> None:
    driver = Driver(model)
    for index in range(4):
        driver.start(f"s{index}", Script(SAMPLINGS[index], seed=60 + index, max_chars=6))
    driver.run()
    num_shortened = 0
    for live in driver.sessions.values():
        expect(model, live)
        unlimited = eager_answers(model, replace(live.script, max_chars=None))
        num_shortened += sum(len(a.ids) < len(b.ids) for a, b in zip(live.answers, unlimited, strict=True))
    assert num_shortened > 0


def test_a_session_of_another_model_is_refused_by_name(model: OmniModel) -> None:
    driver = Driver(model)
    rule = rule_for(model, SAMPLINGS[0], 0)
    driver.engine.admit(ThinkerJob(seq_id="a", ids=(1, 2), duplex=rule, is_resumable=True))
    other = replace(rule, listen_id=rule.tts_bos_id)
    for broken, message in (
        ({"duplex": other}, "other roles"),
        ({"duplex": replace(rule, chunk_tts_eos_id=10**6)}, "names the id 1000000"),
        ({"duplex": rule, "sampling": CHATS[0]}, "both sampling and duplex"),
    ):
        with pytest.raises(SamplingError, match=message):
            driver.engine.admit(ThinkerJob(seq_id="b", ids=(1, 2), **broken))  # type: ignore[arg-type]


def test_a_sequence_cannot_be_cut_while_it_decides(model: OmniModel) -> None:
    driver = Driver(model)
    driver.engine.admit(ThinkerJob(seq_id="a", ids=(1, 2), duplex=rule_for(model, SAMPLINGS[0], 0), is_resumable=True))
    driver.engine.launch()
    assert not driver.engine.can_cut("a")
    with pytest.raises(StateError, match="no cut"):
        driver.engine.cut("a", Cut((0, 1), (), (1, 2), 2, ()))
