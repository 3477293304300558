"""What a session feeds in each phase, and how a cancel ends its turn, without an engine."""

import numpy as np
import pytest

from antiphon.engine.context_window import WindowConfig, WindowMode
from antiphon.engine.duplex_decision import DecisionSampling
from antiphon.engine.thinker_messages import ThinkerOutput, TurnEnd
from antiphon.pipeline.duplex.thinker_session import Phase, ThinkerSession, UnitResult
from antiphon.pipeline.messages import SessionStart, SessionUnit, UnitImage
from antiphon.prompt.tokenizer import Tokenizer

TOKENIZER = Tokenizer.placeholder(512)
SPECIAL = TOKENIZER.special
WORD = 70
UNIT = (SPECIAL.unit_start, *(SPECIAL.unk,) * 10)


def start(window: WindowConfig | None = None, *, max_unit_chars: int | None = None) -> ThinkerSession:
    command = SessionStart(
        request_id="a",
        epoch=0,
        prefix=(1, 2, 3),
        reference=(),
        suffix=(4, 5),
        window=window or WindowConfig(),
        speaks=True,
        seed=9,
        max_unit_chars=max_unit_chars,
    )
    session = ThinkerSession(command, TOKENIZER, marker_ids=(6,), num_reference=7)
    assert (session.phase, session.length) == (Phase.OPENING, 12)
    session.phase = Phase.IDLE
    return session


def unit(epoch: int = 0, *, force_listen: bool = False, num_images: int = 0) -> SessionUnit:
    image = UnitImage(strip=np.zeros((3, 14, 14), np.float32), grid=(1, 1), is_slice=False)
    slice_ = UnitImage(strip=image.strip, grid=(1, 1), is_slice=True)
    return SessionUnit(
        request_id="a",
        epoch=epoch,
        number=0,
        mel=np.zeros((80, 104), np.float32),
        trim_front=1,
        trim_end=1,
        images=(image, slice_)[:num_images],
        force_listen=force_listen,
        sampling=DecisionSampling(),
        max_tokens=20,
        deadline_s=1.0,
    )


def draw(session: ThinkerSession, *ids: int, is_open: bool) -> bool:
    return session.take(ThinkerOutput(seq_id="a", epoch=0, new_ids=ids, is_turn_open=is_open))


def say(session: ThinkerSession, *ids: int, end: int = SPECIAL.chunk_eos) -> UnitResult:
    session.begin(unit(session.epoch), ())
    for token in ids:
        draw(session, token, is_open=token != SPECIAL.turn_eos)
    return session.finish(end)


def test_the_end_of_a_unit_goes_in_front_of_the_next_one() -> None:
    session = start()
    assert session.begin(unit(), ()).ids == UNIT
    assert session.phase is Phase.DECIDING
    draw(session, SPECIAL.speak, is_open=True)
    draw(session, WORD, is_open=True)
    result = session.finish(SPECIAL.chunk_eos)
    assert (result.ids, result.decided_ids) == ((WORD,), (SPECIAL.speak, WORD))
    assert (result.is_listen, result.ends_turn, result.closed_turn) == (False, False, False)
    assert session.length == 12 + 11 + 2 + 2
    feed = session.begin(unit(), ())
    assert feed.ids == (SPECIAL.chunk_eos, SPECIAL.unit_end, *UNIT)
    assert feed.audio_start == 3
    assert not feed.closes_turn


def test_pictures_stand_between_their_marks_in_front_of_the_audio() -> None:
    feed = start().begin(unit(num_images=2), (4, 3))
    marks = (SPECIAL.image_start, SPECIAL.image_end, SPECIAL.slice_start, SPECIAL.slice_end)
    assert [token for token in feed.ids if token in marks] == list(marks)
    assert feed.image_starts == (2, 8)
    assert feed.audio_start == 12
    assert len(feed.ids) == 22


def test_what_a_unit_needs_covers_its_longest_answer() -> None:
    assert start().num_needed(unit(), 0) == 11 + 20 + 2
    assert start().num_needed(unit(num_images=2), 128) == 11 + 128 + 4 + 20 + 2


def test_a_forced_listen_ends_an_open_turn_and_resets_the_voice() -> None:
    session = start()
    say(session, SPECIAL.speak, WORD)
    session.begin(unit(force_listen=True), ())
    assert session.phase is Phase.LISTENING
    result = session.finish(None)
    assert (result.is_listen, result.closed_turn, result.resets_voice) == (True, True, True)
    assert result.decided_ids == (SPECIAL.turn_eos,)
    feed = session.begin(unit(), ())
    assert feed.ids[:3] == (SPECIAL.turn_eos, SPECIAL.listen, SPECIAL.unit_end)
    assert feed.closes_turn


def test_a_forced_listen_without_an_open_turn_ends_nothing() -> None:
    session = start()
    session.begin(unit(force_listen=True), ())
    result = session.finish(None)
    assert (result.closed_turn, result.resets_voice, result.decided_ids) == (False, False, ())


def test_it_is_certain_that_a_unit_speaks_once_something_else_than_the_end_of_its_turn_is_drawn() -> None:
    session = start()
    session.begin(unit(), ())
    assert not draw(session, is_open=False)
    assert not draw(session, SPECIAL.turn_eos, is_open=False)
    assert draw(session, WORD, is_open=True)
    assert not draw(session, WORD, is_open=True)
    assert session.finish(SPECIAL.chunk_eos).was_told


def test_a_turn_that_ends_in_a_unit_that_then_listens_says_so() -> None:
    session = start()
    say(session, SPECIAL.speak, WORD)
    result = say(session, SPECIAL.turn_eos, end=SPECIAL.listen)
    assert (result.is_listen, result.closed_turn, result.ends_turn) == (True, True, False)
    assert not result.was_told
    assert not result.resets_voice


@pytest.mark.parametrize("has_decided", [False, True])
def test_a_cancel_while_a_unit_runs_ends_its_turn_behind_what_was_said(has_decided: bool) -> None:
    session = start()
    say(session, SPECIAL.speak, WORD)
    session.begin(unit(), ())
    if has_decided:
        draw(session, WORD, is_open=True)
    session.cancel(1)
    session.cancel(1)
    if not has_decided:
        draw(session, WORD, is_open=True)
    result = session.finish(SPECIAL.chunk_eos)
    assert result.is_cut_off
    assert not session.is_turn_open
    feed = session.begin(unit(1), ())
    assert feed.ids[:3] == (SPECIAL.turn_eos, SPECIAL.chunk_eos, SPECIAL.unit_end)
    assert feed.closes_turn
    assert session.phase is Phase.DECIDING


def test_a_cancel_behind_the_end_of_a_turn_feeds_nothing() -> None:
    session = start()
    say(session, SPECIAL.speak, WORD, SPECIAL.turn_eos)
    length = session.length
    session.cancel(1)
    assert session.length == length
    assert session.begin(unit(1), ()).ids[0] == SPECIAL.chunk_eos


def test_a_cancel_between_units_ends_the_turn_once_inside_the_last_unit() -> None:
    session = start(WindowConfig(mode=WindowMode.BASIC))
    say(session, SPECIAL.speak, WORD)
    length = session.window.units[-1].length
    session.cancel(1)
    session.cancel(2)
    assert session.window.units[-1].length == length + 1
    assert session.begin(unit(2), ()).ids[:3] == (SPECIAL.turn_eos, SPECIAL.chunk_eos, SPECIAL.unit_end)
    assert session.length == 12 + sum(item.length for item in session.window.units) + 11


def test_a_unit_of_an_older_epoch_is_heard_but_not_answered() -> None:
    session = start()
    session.cancel(1)
    session.begin(unit(0), ())
    assert session.phase is Phase.LISTENING
    session.finish(None)
    session.begin(unit(1), ())
    assert session.phase is Phase.DECIDING


@pytest.mark.parametrize("phase", [Phase.CLOSING, Phase.CUTTING])
def test_a_cancel_while_a_cut_is_due_ends_the_turn_in_front_of_the_next_unit(phase: Phase) -> None:
    session = start(WindowConfig(mode=WindowMode.BASIC, high_tokens=41, low_tokens=30))
    for _ in range(2):
        assert session.phase is Phase.IDLE
        say(session, SPECIAL.speak, WORD)
    assert session.phase is Phase.CLOSING
    assert session.take_pending() == ((SPECIAL.chunk_eos, SPECIAL.unit_end), False)
    session.phase = phase
    session.cancel(1)
    cut = session.cut
    assert session.applied_cut() > 0
    assert session.phase is Phase.IDLE
    assert session.length == cut.length + 1
    feed = session.begin(unit(1), ())
    assert feed.ids == (SPECIAL.turn_eos, *UNIT)
    assert feed.closes_turn
    session.finish(SPECIAL.listen)
    assert session.window.units[-1].num_orphans == 1
    assert session.length == 12 + sum(item.length + item.num_orphans for item in session.window.units)


def test_the_rule_counts_the_characters_of_a_units_text() -> None:
    session = start(max_unit_chars=3)
    session.begin(unit(), ())
    accepts = session.rule().accepts
    assert accepts is not None
    assert accepts((WORD, WORD))
    assert not accepts((WORD, WORD, WORD))
    unlimited = start()
    unlimited.begin(unit(), ())
    assert unlimited.rule().accepts is None


def test_a_unit_that_draws_nothing_listens() -> None:
    session = start()
    session.begin(unit(), ())
    output = ThinkerOutput(seq_id="a", epoch=0, has_ended_turn=True, finish_reason=TurnEnd.STOP, stop_id=SPECIAL.listen)
    assert not session.take(output)
    assert session.finish(output.stop_id).is_listen
