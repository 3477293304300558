"""Duplex sessions through all three stages of the tiny model against the slow twin, unit by unit."""

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from duplex_engine import (
    BASIC,
    CONTEXT,
    Answer,
    Script,
    TwinAnswers,
    World,
    deploy_for,
    expect,
    make_twin,
    talkative_model,
    with_talker_of,
)

from antiphon.core.errors import ContextLengthError
from antiphon.engine.context_window import WindowConfig
from antiphon.engine.duplex_decision import DecisionSampling
from antiphon.pipeline.duplex.session import Decided, Spoken, UnitFailed, UnitFinished
from antiphon.pipeline.omni_model import OmniModel
from antiphon.pipeline.voice_book import VoiceBook

Twin = Callable[[Script], TwinAnswers]
SAMPLINGS = (
    DecisionSampling(),
    DecisionSampling(is_greedy=True),
    DecisionSampling(temperature=1.3, top_k=60, top_p=0.95, penalty_window=7, repetition_penalty=1.3),
    DecisionSampling(temperature=1.5, top_k=0, top_p=1.0, length_penalty=0.8),
)
ENDS_SOON = DecisionSampling(length_penalty=0.3)
SCRIPTS = (
    *(Script(seed=seed, sampling=SAMPLINGS[seed % 4]) for seed in range(5)),
    Script(seed=31, sampling=ENDS_SOON),
    Script(seed=39, sampling=ENDS_SOON),
    Script(seed=41, sampling=SAMPLINGS[3]),
)


@pytest.fixture(scope="module")
def model(tiny_checkpoint: object) -> OmniModel:
    return talkative_model(tiny_checkpoint)


@pytest.fixture(scope="module")
def twin(model: OmniModel) -> Twin:
    return make_twin(model, VoiceBook(model).prepare(None))


def kinds_of(answers: list[Answer], turn_eos: int) -> set[str]:
    """Which paths the units took."""
    kinds = set()
    for answer in answers:
        if answer.is_forced:
            kinds.add("forced listen, turn open" if answer.was_open else "forced listen")
        elif answer.is_listen:
            kinds.add("turn_eos, listen" if turn_eos in answer.decided_ids else "listen")
        else:
            place = "later" if answer.was_open else "first"
            kinds.add(f"{place} unit ends its turn" if answer.ends_turn else f"{place} unit goes on")
    return kinds


def test_the_scripts_take_every_path(model: OmniModel, twin: Twin) -> None:
    answers = [answer for script in SCRIPTS for answer in twin(script).answers]
    assert kinds_of(answers, model.tokenizer.special.turn_eos) == {
        "listen",
        "forced listen",
        "forced listen, turn open",
        "turn_eos, listen",
        "first unit goes on",
        "later unit goes on",
        "first unit ends its turn",
        "later unit ends its turn",
    }


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: f"seed{script.seed}")
def test_a_session_answers_as_the_twin(model: OmniModel, twin: Twin, script: Script) -> None:
    world = World(model)
    session = world.open("a", script)
    world.run()
    expect(session, twin(script))
    for answer, finished in zip(twin(script).answers, session.finished, strict=True):
        has_ended = answer.decided_ids[-1:] == (model.tokenizer.special.turn_eos,)
        assert finished.end_of_turn == has_ended
        assert finished.num_codec_frames == len(answer.codes)
        if not answer.is_listen and not answer.ends_turn:
            assert len(answer.samples) == 24_000
    world.close()
    assert world.held() == {}


def test_every_unit_is_decided_once_and_before_all_else(model: OmniModel) -> None:
    world = World(model)
    session = world.open("a", SCRIPTS[0])
    world.run()
    for number in range(SCRIPTS[0].num_units):
        mine = [event for event in session.events if getattr(event, "number", None) == number]
        assert isinstance(mine[0], Decided)
        assert isinstance(mine[-1], UnitFinished)
        assert [type(event) for event in mine[1:-1]] == ([Spoken] if any(isinstance(e, Spoken) for e in mine) else [])
        assert mine[0].speaks or mine[-1].is_listen
    world.close()


@pytest.mark.parametrize("frames", [1, 2])
def test_a_session_with_pictures_answers_as_the_twin(model: OmniModel, twin: Twin, frames: int) -> None:
    script = Script(seed=11, frames=frames, num_units=5)
    world = World(model)
    session = world.open("a", script)
    world.run()
    expect(session, twin(script))
    assert session.finished[0].num_input_tokens > 11 + 64 * frames
    world.close()
    assert world.held() == {}


def test_a_session_without_a_voice_answers_as_the_twin_and_touches_no_speech(model: OmniModel, twin: Twin) -> None:
    script = Script(seed=12, speaks=False)
    world = World(model)
    session = world.open("a", script)
    world.run()
    expect(session, twin(script))
    assert any(answer.text for answer in session.answers)
    assert world.engine.snapshot()["talker.sessions"] == 0
    world.close()
    assert world.held() == {}


def test_sixteen_sessions_that_join_at_random_answer_as_each_does_alone(model: OmniModel, twin: Twin) -> None:
    rows = '{"max_num_seqs": 16, "kv_cache_memory_bytes": 1073741824}'
    deploy = deploy_for(max_sessions=16, stage_overrides=f'{{"0": {rows}, "1": {rows}, "2": {{"max_num_seqs": 16}}}}')
    world, chance = World(model, deploy), random.Random(3)
    scripts = [*SCRIPTS, *(replace(script, window=BASIC) for script in SCRIPTS[:4])]
    scripts += [replace(script, window=CONTEXT) for script in SCRIPTS[:2]]
    scripts += [Script(seed=11, frames=1, num_units=5), Script(seed=12, speaks=False)]
    for number in chance.sample(range(16), 16):
        world.open(f"s{number}", scripts[number])
        for _ in range(chance.randint(0, 40)):
            world.step()
    world.run()
    for number, script in enumerate(scripts):
        expect(world.sessions[f"s{number}"], twin(script))
    world.close()
    assert world.held() == {}


@pytest.mark.parametrize("window", [BASIC, CONTEXT], ids=["basic", "context"])
@pytest.mark.parametrize("seed", [0, 2])
def test_sessions_whose_context_is_cut_answer_as_the_twin(
    model: OmniModel, twin: Twin, window: WindowConfig, seed: int
) -> None:
    script = replace(SCRIPTS[seed], window=window, num_units=14)
    world = World(model)
    session = world.open("a", script)
    world.run()
    expect(session, twin(script))
    world.run_until(lambda: len(session.cuts) == len(twin(script).cuts), limit=100)
    assert session.cuts == twin(script).cuts
    assert len(session.cuts) > 1
    world.close()
    assert world.held() == {}


def test_a_full_talker_is_rebuilt_as_the_twin_does(tiny_checkpoint: object) -> None:
    model = with_talker_of(talkative_model(tiny_checkpoint), 100)
    twin = make_twin(model, VoiceBook(model).prepare(None))
    world = World(model)
    scripts = [Script(seed=seed, num_units=12, listen_every=0) for seed in range(4)]
    for script in scripts:
        world.open(f"s{script.seed}", script)
    world.run()
    for script in scripts:
        expect(world.sessions[f"s{script.seed}"], twin(script))
    assert any(answer.has_rolled_over for script in scripts for answer in twin(script).answers)
    world.close()


def test_a_unit_too_long_for_the_talker_fails_alone_and_the_next_turn_starts_clean(tiny_checkpoint: object) -> None:
    model = with_talker_of(talkative_model(tiny_checkpoint), 34)
    world = World(model)
    scripts = [Script(seed=seed, num_units=20, listen_every=0) for seed in range(4)]
    for script in scripts:
        world.open(f"s{script.seed}", script)
    world.run()
    failed = {
        (session.name, event.number): event
        for session in world.sessions.values()
        for event in session.events
        if isinstance(event, UnitFailed)
    }
    assert failed
    assert {event.code for event in failed.values()} == {"talker_context_exceeded"}
    for session in world.sessions.values():
        assert session.failure is None
        assert len(session.finished) + sum(name == session.name for name, _ in failed) == 20
    world.close()
    assert world.held() == {}


def test_a_session_whose_context_is_full_hears_no_more_and_its_neighbours_go_on(model: OmniModel, twin: Twin) -> None:
    world = World(model, deploy_for(stage_overrides='{"0": {"max_model_len": 512}}'))
    full = world.open("full", replace(SCRIPTS[0], num_units=60))
    other = world.open("other", SCRIPTS[2])
    world.run_until(lambda: any(isinstance(event, UnitFailed) for event in full.events))
    failed = full.events[-1]
    assert isinstance(failed, UnitFailed)
    assert failed.code == ContextLengthError.code
    assert "512" in failed.message
    assert 512 - 40 < full.finished[-1].context_tokens <= 512
    full.is_paused = True
    world.run_until(lambda: other.is_done)
    expect(other, twin(SCRIPTS[2]))
    world.close()
    assert world.held() == {}


def test_a_unit_that_cannot_be_read_fails_alone(model: OmniModel) -> None:
    world = World(model)
    session = world.open("a", SCRIPTS[0])
    world.run_until(lambda: len(session.finished) == 3)
    session.is_paused = True
    world.run_until(lambda: session.can_send)
    assert session.handle is not None
    number = session.num_sent
    for samples, text in ((np.full(16_000, np.nan, np.float32), "not finite"), (np.zeros(8000, np.float32), "shape")):
        session.handle.append(replace(SCRIPTS[0].unit(number), samples=samples))
        failed = session.events[-1]
        assert isinstance(failed, UnitFailed)
        assert failed.code == "bad_media"
        assert text in failed.message
    session.handle.append(SCRIPTS[0].unit(number))
    world.run_until(lambda: isinstance(session.events[-1], UnitFinished) and session.events[-1].number == number)
    world.close()
