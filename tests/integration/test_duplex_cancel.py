"""Cancels and ends of sessions at every point of a unit, on the tiny model."""

import random
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest
from duplex_engine import BASIC, CONTEXT, Script, Session, TwinAnswers, World, expect, make_twin, talkative_model

from antiphon.core.errors import CapacityError
from antiphon.engine.duplex_decision import DecisionSampling
from antiphon.pipeline.duplex.session import Opened, SessionFailed, UnitFinished
from antiphon.pipeline.omni_model import OmniModel
from antiphon.pipeline.voice_book import VoiceBook

Twin = Callable[[Script], TwinAnswers]
SPEAKS = Script(seed=1, num_units=8, listen_every=0, sampling=DecisionSampling(is_greedy=True))
OTHERS = (Script(seed=0, num_units=6), Script(seed=2, num_units=6, sampling=DecisionSampling(length_penalty=0.3)))


@pytest.fixture(scope="module")
def model(tiny_checkpoint: object) -> OmniModel:
    return talkative_model(tiny_checkpoint)


@pytest.fixture(scope="module")
def twin(model: OmniModel) -> Twin:
    return make_twin(model, VoiceBook(model).prepare(None))


def open_turns(ids: tuple[int, ...], model: OmniModel) -> list[bool]:
    """Whether the model's turn is open at the head of each unit of a context; fails where one is ended twice."""
    special = model.tokenizer.special
    structure = {special.unit_start, special.unit_end, special.listen, special.chunk_eos, special.chunk_tts_eos}
    is_open, found = False, []
    units = ids[ids.index(special.unit_start) :]
    for token in units:
        if token == special.unit_start:
            found.append(is_open)
        elif token == special.turn_eos:
            assert is_open, "a turn that is not open is ended"
            is_open = False
        elif token not in structure and token != special.unk:
            is_open = True
    return found


def cancel_after(world: World, session: Session, num_steps: int) -> None:
    """Run to the third unit and *num_steps* into it, cancel, and let the session go on."""
    world.run_until(lambda: len(session.finished) == 2)
    world.run_until(lambda: session.num_sent == 3)
    for _ in range(num_steps):
        world.step()
    session.cancel()


@pytest.mark.parametrize("num_steps", [*range(12), 16, 20, 24, 28, 32, 36, 40])
def test_a_cancel_at_any_point_ends_the_turn_once_and_nothing_stale_is_told(
    model: OmniModel, twin: Twin, num_steps: int
) -> None:
    world = World(model)
    others = [world.open(f"o{number}", script) for number, script in enumerate(OTHERS)]
    session = world.open("a", SPEAKS)
    cancel_after(world, session, num_steps)
    place = session.num_sent
    world.run()
    assert session.stale_events == []
    assert session.failure is None
    later = [event for event in session.finished if event.epoch == 1]
    assert [event.number for event in later] == list(range(place, SPEAKS.num_units))
    # Whatever was said by then, the first unit of the new epoch finds no open turn.
    turns = open_turns(world.context("a"), model)
    assert not turns[place]
    assert world.thinker_session("a").pending[:1] != (model.tokenizer.special.turn_eos,)
    for other, script in zip(others, OTHERS, strict=True):
        expect(other, twin(script))
    assert any(not event.is_listen for event in later)
    world.close()
    assert world.held() == {}


@pytest.mark.parametrize("window", [BASIC, CONTEXT], ids=["basic", "context"])
def test_a_cancel_while_a_cut_is_due_ends_the_turn_once(model: OmniModel, window: object) -> None:
    script = replace(SPEAKS, window=window, num_units=14)  # type: ignore[arg-type]
    num_caught = 0
    for place in range(5, 9):
        world = World(model)
        session = world.open("a", script)
        world.run_until(lambda session=session, place=place: len(session.finished) == place)
        session.is_paused = True
        phases = set()
        for _ in range(6):
            phases.add(world.thinker_session("a").phase.value)
            if {"closing", "cutting"} & phases:
                break
            world.step()
        was_open = world.thinker_session("a").is_turn_open
        session.cancel()
        session.is_paused = False
        world.run()
        num_caught += bool({"closing", "cutting"} & phases and was_open)
        live, context = world.thinker_session("a"), world.context("a")
        assert len(context) + len(live.pending) == live.length
        assert session.stale_events == []
        world.close()
        assert world.held() == {}
    assert num_caught


def test_a_cut_off_talker_speaks_the_next_turn_as_if_nothing_had_been(model: OmniModel) -> None:
    world = World(model)
    session = world.open("a", SPEAKS)
    world.run_until(lambda: sum(not event.is_listen for event in session.finished) == 2)
    session.is_paused = True
    assert world.engine.snapshot()["talker.slots_lent"] == 1
    session.cancel()
    world.settle()
    gauges = world.engine.snapshot()
    assert gauges["talker.slots_lent"] == gauges["talker.sequences"] == gauges["code2wav.streams"] == 0
    session.is_paused = False
    world.run()
    first = next(event for event in session.finished if event.epoch == 1 and not event.is_listen)
    assert first.has_rebuilt_talker is False
    world.close()


def test_what_was_heard_before_a_cancel_stays_in_the_context(model: OmniModel) -> None:
    world = World(model)
    session = world.open("a", SPEAKS)
    cancel_after(world, session, 1)
    world.run()
    unit_start = model.tokenizer.special.unit_start
    assert world.context("a").count(unit_start) == SPEAKS.num_units
    world.close()


def test_units_queued_at_once_are_answered_in_order_and_a_cancel_drops_their_answers(model: OmniModel) -> None:
    world = World(model)
    session = world.open("a", replace(SPEAKS, num_units=0))
    world.run_until(lambda: session.can_send)
    assert session.handle is not None
    for number in range(5):
        session.handle.append(SPEAKS.unit(number))
    world.run_until(lambda: len(session.finished) == 5)
    assert [event.number for event in session.finished] == list(range(5))
    for number in range(5, 10):
        session.handle.append(SPEAKS.unit(number))
    world.step()
    session.cancel()
    session.handle.append(SPEAKS.unit(0, epoch=1))
    world.run_until(lambda: session.finished[-1].epoch == 1)
    assert session.stale_events == []
    assert world.context("a").count(model.tokenizer.special.unit_start) == 11
    world.close()
    assert world.held() == {}


def test_three_hundred_sessions_that_end_anywhere_leave_nothing(model: OmniModel) -> None:
    world, chance = World(model), random.Random(5)
    num_threads, num_opened, num_spoken = threading.active_count(), 0, 0
    while num_opened < 300:
        if len(world.sessions) < 4:
            window = chance.choice([BASIC, CONTEXT])
            script = Script(
                seed=num_opened, num_units=9, speaks=chance.random() < 0.8, window=window, frames=chance.random() < 0.1
            )
            world.open(f"s{num_opened}", script)
            num_opened += 1
        for _ in range(60 if chance.random() < 0.03 else chance.randint(0, 3)):
            world.step()
        session = world.sessions[chance.choice(list(world.sessions))]
        if chance.random() < 0.2:
            session.cancel()
        elif chance.random() < 0.7:
            num_spoken += any(not event.is_listen for event in session.finished)
            assert session.stale_events == []
            assert session.failure is None
            handle = world.sessions.pop(session.name).handle
            assert handle is not None
            handle.close()
            num_events = len(session.events)
            world.step()
            assert len(session.events) == num_events
    world.close()
    assert num_spoken > 3
    assert world.held() == {}
    assert world.engine.duplex.num_sessions == 0
    assert threading.active_count() == num_threads


def test_more_sessions_than_fit_are_refused_and_a_closed_one_makes_room(model: OmniModel) -> None:
    world = World(model)
    for number in range(4):
        world.open(f"s{number}", SPEAKS)
    with pytest.raises(CapacityError, match="4 sessions live"):
        world.open("more", SPEAKS)
    world.sessions.pop("more")
    world.close("s0")
    late = world.open("more", SPEAKS)
    world.run_until(lambda: bool(late.events))
    assert isinstance(late.events[0], Opened)
    world.close()


def test_an_engine_that_closes_tells_its_sessions(model: OmniModel) -> None:
    world = World(model)
    session = world.open("a", SPEAKS)
    world.run_until(lambda: any(isinstance(event, UnitFinished) for event in session.events))
    world.engine.close()
    failed = session.events[-1]
    assert isinstance(failed, SessionFailed)
    assert "closed" in str(failed.error)
