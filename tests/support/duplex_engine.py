"""Duplex sessions on a real engine whose loop the test steps, and the slow twin's answers to the same units."""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from antiphon.config.deploy import DeployConfig
from antiphon.config.load import load_deploy
from antiphon.engine.context_window import WindowConfig, WindowMode
from antiphon.engine.counter_noise import CounterNoise
from antiphon.engine.duplex_decision import DecisionSampling
from antiphon.engine.talker_sampling import TalkerSampling
from antiphon.engine.thinker_engine import ThinkerEngine
from antiphon.models.code2wav.counter_source import CounterSourceNoise
from antiphon.pipeline.build import build_omni_model
from antiphon.pipeline.device_loop import THINKER
from antiphon.pipeline.duplex.front import SessionHandle
from antiphon.pipeline.duplex.session import (
    ContextCut,
    Decided,
    InputUnit,
    Opened,
    SessionEvent,
    SessionFailed,
    SessionPlan,
    Spoken,
    UnitFailed,
    UnitFinished,
)
from antiphon.pipeline.duplex.thinker_session import ThinkerSession
from antiphon.pipeline.eager.duplex import DuplexSession
from antiphon.pipeline.eager.duplex_input import UnitInput
from antiphon.pipeline.eager.duplex_options import UNIFIED_RULES, DuplexOptions
from antiphon.pipeline.eager.vocoder import Vocoder, VocoderStream
from antiphon.pipeline.local_engine import LocalEngine
from antiphon.pipeline.messages import FrontMessage, UnitDrawn, UnitWritten
from antiphon.pipeline.omni_model import OmniModel
from antiphon.pipeline.stages.thinker import ThinkerStage
from antiphon.pipeline.voice_book import PreparedVoice

BASIC = WindowConfig(mode=WindowMode.BASIC, high_tokens=150, low_tokens=90)
CONTEXT = WindowConfig(mode=WindowMode.CONTEXT, max_units=3, max_previous_ids=9)
# As in test_engine_generate: the vocoder sums phases, so it carries rounding of other batches on.
MAX_SAMPLE_ERROR = 2e-3
# What a session that has ended must not hold. (The Thinker takes seats back with its next step.)
HELD = ("session", "sequences", "streams", "slots_lent", "slots_retired", "blocks_used", "settling", "in_flight")


def talkative_model(folder: object) -> OmniModel:
    """The tiny model, with every way to end a unit or a turn among a few dozen favourites."""
    model = build_omni_model(str(folder), device=torch.device("cpu"))
    special = model.tokenizer.special
    roles = (special.listen, special.speak, special.chunk_eos, special.chunk_tts_eos, special.turn_eos, special.tts_bos)
    favourites = [*roles, *model.tokenizer.encode_plain("the sea is calm today and we go far with the dogs")]
    head = model.thinker.llm.lm_head.weight
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        head[favourites] = 5.0 * torch.randn(len(favourites), head.shape[1], generator=generator) / head.shape[1] ** 0.5
    return model


def with_talker_of(model: OmniModel, max_positions: int) -> OmniModel:
    """The same with a Talker whose context ends sooner, for the engine and for the twin."""
    assert model.talker is not None
    config = model.talker.config
    model.talker.config = replace(config, decoder=replace(config.decoder, max_positions=max_positions))
    return replace(model, config=replace(model.config, talker=model.talker.config))


class InlineExecutor(Executor):
    """Does at once what it is given."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        done: Future[Any] = Future()
        done.set_result(fn(*args, **kwargs))
        return done


def deploy_for(*, max_sessions: int = 4, stage_overrides: str = "") -> DeployConfig:
    config = load_deploy("cpu.yaml", platform="cpu", stage_overrides=stage_overrides)
    return replace(config, duplex_session=replace(config.duplex_session, max_sessions=max_sessions))


@dataclass(frozen=True, kw_only=True)
class Script:
    """What one session is given. Equal scripts have equal answers."""

    seed: int
    num_units: int = 10
    speaks: bool = True
    frames: int = 0  # of each unit
    window: WindowConfig = field(default_factory=WindowConfig)
    sampling: DecisionSampling = field(default_factory=DecisionSampling)
    listen_every: int = 5  # a unit is forced to listen; 0: none is
    max_tokens: int = 20

    def unit(self, number: int, epoch: int = 0) -> InputUnit:
        chance = np.random.default_rng(1000 * self.seed + number)
        sides = ((120, 90), (60, 60))[: self.frames]
        return InputUnit(
            epoch=epoch,
            number=number,
            samples=chance.normal(0, 0.1, 16_000).astype(np.float32),
            frames=tuple(Image.fromarray(chance.integers(0, 255, (*side, 3), np.uint8)) for side in sides),
            force_listen=bool(self.listen_every) and (self.seed + number) % self.listen_every == 3,
            sampling=self.sampling,
            max_tokens=self.max_tokens,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Answer:
    """What became of a unit, told by the engine or by the twin."""

    decided_ids: tuple[int, ...]
    terminator: int
    is_listen: bool
    text: str
    ends_turn: bool  # by its speech
    codes: tuple[int, ...]
    has_rolled_over: bool
    samples: NDArray[np.float32]
    was_open: bool  # the model's turn, in front of it
    is_forced: bool

    def expect(self, other: "Answer", what: object) -> None:
        """Fails unless both are the same, samples but for rounding."""
        for name in ("decided_ids", "terminator", "is_listen", "text", "ends_turn", "codes", "has_rolled_over"):
            assert getattr(self, name) == getattr(other, name), (what, name)
        assert len(self.samples) == len(other.samples), what
        if len(self.samples):
            assert np.abs(self.samples - other.samples).max() < MAX_SAMPLE_ERROR, what


class _TurnStream(VocoderStream):
    """The twin's voice; its excitation begins anew with each turn, as the engine's streams do."""

    def reset(self) -> None:
        super().reset()
        noise = self.vocoder.source_noise
        assert isinstance(noise, CounterSourceNoise)
        noise.start = 0


def twin_session(model: OmniModel, script: Script, voice: PreparedVoice | None) -> DuplexSession:
    stream = None
    if voice is not None and script.speaks:
        assert model.code2wav is not None
        vocoder = Vocoder(model.code2wav, voice.features, source_noise=CounterSourceNoise(script.seed))
        stream = _TurnStream(vocoder)
    talker = SessionPlan(session_id="").talker
    session = DuplexSession(
        model,
        DuplexOptions(
            rules=UNIFIED_RULES,
            window=script.window,
            sampling=script.sampling,
            max_tokens=script.max_tokens,
            generate_audio=script.speaks,
        ),
        noise=CounterNoise(script.seed),
        talker_noise=CounterNoise(script.seed),
        voice=stream,
        talker_sampling=TalkerSampling(
            temperature=talker.temperature,
            top_p=talker.top_p,
            top_k=talker.top_k,
            repetition_penalty=talker.repetition_penalty,
        ),
    )
    session.prepare()
    return session


@dataclass
class TwinAnswers:
    answers: list[Answer]
    cuts: list[tuple[int, int, int]]  # units, tokens, what is left


def make_twin(model: OmniModel, voice: PreparedVoice) -> Callable[[Script], TwinAnswers]:
    """Answers of the slow twin, each script once."""

    @cache
    def twin(script: Script) -> TwinAnswers:
        session = twin_session(model, script, voice)
        found = TwinAnswers([], [])
        with torch.inference_mode():
            for number in range(script.num_units):
                unit, was_open = script.unit(number), session.is_turn_open
                limits = (2, 1) if len(unit.frames) == 2 else (1,) * len(unit.frames)
                session.prefill(UnitInput(audio=unit.samples, frames=unit.frames, max_slices=limits))
                result = session.generate(force_listen=unit.force_listen)
                before = len(session.sequence) + 2
                end = session.finish_unit()
                assert end is not None
                assert result.terminator is not None
                if end.cut is not None:
                    left = len(session.sequence)
                    found.cuts.append((len(end.cut.dropped), before - left, left))
                speech = result.speech
                found.answers.append(
                    Answer(
                        decided_ids=result.decided_ids,
                        terminator=result.terminator,
                        is_listen=result.is_listen,
                        text=result.text,
                        ends_turn=result.end_of_turn,
                        codes=() if speech is None else speech.codes,
                        has_rolled_over=speech is not None and speech.has_rolled_over,
                        samples=np.zeros(0, np.float32) if speech is None else speech.waveform.numpy(),
                        was_open=was_open,
                        is_forced=unit.force_listen,
                    )
                )
        return found

    return twin


@dataclass(eq=False)
class Session:
    """One session on the engine; sends its next unit when the one before is over."""

    world: "World"
    name: str
    script: Script
    events: list[SessionEvent] = field(default_factory=list)
    messages: list[FrontMessage] = field(default_factory=list)
    handle: SessionHandle | None = None
    num_sent: int = 0
    epoch: int = 0
    is_paused: bool = False
    cancelled_at: dict[int, tuple[int, int]] = field(default_factory=lambda: {0: (0, 0)})  # events and units by then

    def advance(self) -> None:
        assert self.handle is not None
        if self.can_send and self.num_sent < self.script.num_units and not self.is_paused:
            self.send()

    def send(self) -> None:
        assert self.handle is not None
        self.handle.append(self.script.unit(self.num_sent, self.epoch))
        self.num_sent += 1

    def cancel(self) -> None:
        """As a client does: what is in flight is not waited for."""
        assert self.handle is not None
        self.epoch += 1
        self.handle.cancel(self.epoch)
        self.cancelled_at[self.epoch] = (len(self.events), self.num_sent)

    @property
    def can_send(self) -> bool:
        if not any(isinstance(event, Opened) for event in self.events) or self.failure is not None:
            return False
        ends = (UnitFinished, UnitFailed)
        num_over = sum(isinstance(event, ends) and event.epoch == self.epoch for event in self.events)
        return self.num_sent - self.cancelled_at[self.epoch][1] == num_over

    @property
    def stale_events(self) -> list[SessionEvent]:
        """What was told of an epoch that was over."""
        return [
            event
            for epoch, (place, _) in self.cancelled_at.items()
            for event in self.events[place:]
            if isinstance(event, (Decided, Spoken, UnitFinished, UnitFailed)) and event.epoch < epoch
        ]

    @property
    def is_done(self) -> bool:
        return self.failure is not None or (self.num_sent == self.script.num_units and self.can_send)

    @property
    def failure(self) -> SessionFailed | None:
        return next((event for event in self.events if isinstance(event, SessionFailed)), None)

    @property
    def finished(self) -> list[UnitFinished]:
        return [event for event in self.events if isinstance(event, UnitFinished)]

    @property
    def cuts(self) -> list[tuple[int, int, int]]:
        found = [event for event in self.events if isinstance(event, ContextCut)]
        return [(cut.num_units, cut.num_tokens, cut.context_tokens) for cut in found]

    @property
    def answers(self) -> list[Answer]:
        """Of the units that were finished, in order."""
        found = []
        for event in self.finished:
            key = event.epoch, event.number
            written = next(m for m in self.messages if isinstance(m, UnitWritten) and (m.epoch, m.number) == key)
            drawn = next((m for m in self.messages if isinstance(m, UnitDrawn) and (m.epoch, m.number) == key), None)
            spoken = next((e for e in self.events if isinstance(e, Spoken) and (e.epoch, e.number) == key), None)
            found.append(
                Answer(
                    decided_ids=written.decided_ids,
                    terminator=written.terminator,
                    is_listen=event.is_listen,
                    text="" if spoken is None else spoken.text,
                    ends_turn=written.ends_turn,
                    codes=() if drawn is None else drawn.codes,
                    has_rolled_over=event.has_rebuilt_talker,
                    samples=np.zeros(0, np.float32) if spoken is None else spoken.samples,
                    was_open=False,
                    is_forced=False,
                )
            )
        return found


class World:
    """An engine without threads. The clock stands still unless the test moves it."""

    def __init__(self, model: OmniModel, deploy: DeployConfig | None = None) -> None:
        self.now_s = 100.0
        self.engine = LocalEngine(
            model, deploy or deploy_for(), clock=lambda: self.now_s, executor=InlineExecutor(), max_requests=32
        )
        self.engine.deliver_inline()
        self.sessions: dict[str, Session] = {}
        receive = self.engine._receive

        def tap(message: FrontMessage) -> None:
            session = self.sessions.get(getattr(message, "request_id", ""))
            if session is not None:
                session.messages.append(message)
            receive(message)

        self.engine._deliver = tap
        self.voice = self.engine.voices.prepare(None)

    def open(self, name: str, script: Script, **plan: Any) -> Session:
        session = self.sessions[name] = Session(self, name, script)
        chosen = SessionPlan(
            session_id=name,
            voice=self.voice if script.speaks else None,
            window=script.window,
            seed=script.seed,
            **plan,
        )
        session.handle = self.engine.duplex.open(chosen, session.events.append)
        return session

    def step(self) -> bool:
        has_moved = self.engine.loop.step()
        for session in self.sessions.values():
            session.advance()
        return has_moved

    def run_until(self, condition: Callable[[], bool], limit: int = 50_000) -> None:
        for _ in range(limit):
            if condition():
                return
            self.step()
        raise AssertionError("it does not come to an end")

    def run(self) -> None:
        """Until every session has said all."""
        self.run_until(lambda: all(session.is_done for session in self.sessions.values()))

    def close(self, *names: str) -> None:
        for name in names or tuple(self.sessions):
            handle = self.sessions.pop(name).handle
            assert handle is not None
            handle.close()
        self.settle()

    def settle(self) -> None:
        for _ in range(50):
            self.engine.loop.step()

    def thinker_session(self, name: str) -> ThinkerSession:
        stage = self.engine.loop._stages[THINKER]
        assert isinstance(stage, ThinkerStage)
        assert stage._sessions is not None
        return stage._sessions._live[name].session

    def context(self, name: str) -> tuple[int, ...]:
        """The ids in the session's context as the engine has them, placeholders for media."""
        stage = self.engine.loop._stages[THINKER]
        assert isinstance(stage, ThinkerStage)
        engine = stage._engine
        assert isinstance(engine, ThinkerEngine)
        return tuple(engine._book.get(name).tokens)

    def held(self) -> dict[str, float]:
        """What is not free. The prefix cache keeps no blocks in use."""
        gauges = self.engine.snapshot()
        return {name: value for name, value in gauges.items() if value and any(word in name for word in HELD)}


def expect(session: Session, wanted: TwinAnswers, *, num: int | None = None) -> None:
    """Fails unless the session's answers are the twin's."""
    answers: Sequence[Answer] = session.answers
    assert len(answers) == (session.script.num_units if num is None else num)
    for number, (got, want) in enumerate(zip(answers, wanted.answers, strict=False)):
        got.expect(want, (session.name, number))
