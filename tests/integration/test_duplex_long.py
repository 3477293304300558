"""Long sessions of the tiny model on a clock moved by hand: cases 66 and 68 of the Realtime specification, and more."""

import gc
import os
import resource
from dataclasses import replace

import numpy as np
import pytest
from duplex_engine import Script, Session, World, deploy_for, talkative_model, with_talker_of

from antiphon.engine.context_window import WindowConfig, WindowMode
from antiphon.engine.duplex_decision import DecisionSampling
from antiphon.pipeline.duplex.session import Spoken, UnitFinished
from antiphon.pipeline.omni_model import OmniModel

# Seconds of one session; two hours are 7200, which take a quarter of an hour here.
NUM_UNITS = int(os.environ.get("ANTIPHON_TEST_LONG_UNITS", "450"))
NUM_WARM = 100  # units until everything has its size
WINDOW = WindowConfig(mode=WindowMode.BASIC, high_tokens=300, low_tokens=200)
SCRIPT = Script(seed=1, num_units=NUM_UNITS, listen_every=7, window=WINDOW, max_tokens=6, sampling=DecisionSampling())


@pytest.fixture
def model(tiny_checkpoint: object) -> OmniModel:
    return talkative_model(tiny_checkpoint)


def rss_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


@pytest.mark.timeout(1800)
def test_case_68_a_long_session_stays_in_its_bounds(model: OmniModel) -> None:
    world = World(model, deploy_for(max_sessions=1, stage_overrides='{"0": {"max_model_len": 512}}'))
    session = world.open("a", SCRIPT)
    units = [SCRIPT.unit(number) for number in range(8)]
    num_spoken = num_cuts = num_turns = 0
    most_context, warm_rss, warm_objects = 0, 0, 0
    session.is_paused = True
    world.run_until(lambda: session.can_send)
    assert session.handle is not None
    for number in range(NUM_UNITS):
        session.handle.append(replace(units[number % 8], number=number, force_listen=number % 7 == 3))
        world.run_until(lambda number=number: is_over(session, number), limit=2000)
        world.now_s += 1.0
        mine = [event for event in session.events if getattr(event, "number", None) == number]
        finished = mine[-1]
        assert isinstance(finished, UnitFinished)
        assert finished.late_s == 0.0
        most_context = max(most_context, finished.context_tokens)
        spoken = [event for event in mine if isinstance(event, Spoken)]
        assert len(spoken) == (not finished.is_listen)  # no second of speech is missing
        if spoken and not finished.end_of_turn:
            assert len(spoken[0].samples) == 24_000
        if spoken:
            assert np.isfinite(spoken[0].samples).all()
        num_spoken += len(spoken)
        num_turns += finished.end_of_turn
        for num_dropped, num_tokens, left in session.cuts:
            assert num_dropped > 0
            assert num_tokens > 0
            assert left <= WINDOW.low_tokens
            num_cuts += 1
        del session.events[1:], session.messages[:]  # what a client would have taken
        world.engine.counters.take_observations()  # as the metrics page does
        if number == NUM_WARM:
            warm_rss, warm_objects = rss_bytes(), num_objects()
    assert num_objects() - warm_objects < 1000  # the last units' times are kept
    assert rss_bytes() - warm_rss < 32 * 2**20
    assert num_spoken > NUM_UNITS / 4
    assert num_cuts > NUM_UNITS / 50
    assert num_turns > NUM_UNITS / 50
    assert most_context <= WINDOW.high_tokens + 40
    gauges = world.engine.snapshot()
    assert gauges["thinker.preemptions"] == gauges["thinker.rebuilds"] == 0
    world.close()
    assert world.held() == {}


def num_objects() -> int:
    gc.collect()
    return len(gc.get_objects())


def is_over(session: Session, number: int) -> bool:
    last = session.events[-1]
    return isinstance(last, UnitFinished) and last.number == number


def test_case_66_a_talker_that_is_full_is_rebuilt_and_other_sessions_do_not_feel_it(model: OmniModel) -> None:
    short = with_talker_of(model, 128)
    alone = World(short)
    other = Script(seed=2, num_units=12)
    wanted = alone.open("other", other)
    alone.run()
    world = World(short)
    # A turn that never ends: its end is out of the model's reach.
    endless = DecisionSampling(is_greedy=True, length_penalty=1000.0)
    full = world.open("full", Script(seed=3, num_units=24, listen_every=0, sampling=endless))
    beside = world.open("other", other)
    world.run()
    assert sum(event.has_rebuilt_talker for event in full.finished) > 1
    assert full.failure is None
    for number, (got, want) in enumerate(zip(beside.answers, wanted.answers, strict=True)):
        got.expect(want, number)
    speaking = [event for event in full.events if isinstance(event, Spoken)]
    assert len(speaking) > 12
    world.close()
    assert world.held() == {}
