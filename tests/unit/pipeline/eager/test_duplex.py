"""Whole units on a tiny random model whose decisions follow a script; a second of audio is ten rows."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from antiphon.core.errors import ConfigError, ContextLengthError, MediaError, PromptError
from antiphon.engine.context_window import WindowConfig, WindowMode
from antiphon.engine.duplex_decision import DecisionSampling
from antiphon.engine.noise import Argmax
from antiphon.pipeline.eager.duplex import DuplexSession
from antiphon.pipeline.eager.duplex_input import UnitInput
from antiphon.pipeline.eager.duplex_options import BASE_RULES, UNIFIED_RULES, DuplexOptions
from antiphon.pipeline.eager.thinker import ThinkerSequence

SECOND = np.zeros(16_000, dtype=np.float32)
WORD = 70  # an ordinary one-letter token


class Script:
    """Makes the id of a (unit, step) certain; other steps end the chunk. Remembers what it was asked."""

    def __init__(self, chunk_eos, *units):
        self.ids = dict(enumerate(units))
        self.chunk_eos = chunk_eos
        self.asked = []

    def __call__(self, logits, *, unit, step):
        self.asked.append((unit, step))
        ids = self.ids.get(unit, ())
        chosen = ids[step] if step < len(ids) else self.chunk_eos
        return torch.full_like(logits, -50.0).index_fill(0, torch.tensor([chosen]), 50.0)


class CountingSequence(ThinkerSequence):
    """Remembers how many rows each forward had."""

    def __init__(self, thinker):
        super().__init__(thinker)
        self.fed = []

    def feed(self, embeds):
        self.fed.append(len(embeds))
        return super().feed(embeds)


@pytest.fixture
def start(omni, voice):
    def start(*units, model=omni, **options):
        options = DuplexOptions(sampling=DecisionSampling(is_greedy=True), **options)
        session = DuplexSession(
            model,
            options,
            noise=Argmax(),
            voice=voice if options.generate_audio else None,
            sequence=CountingSequence(model.thinker),
            logits_bias=Script(model.tokenizer.special.chunk_eos, *units),
        )
        session.prepare("hi")
        session.sequence.fed.clear()
        return session

    return start


@pytest.fixture
def special(omni):
    return omni.tokenizer.special


def step(session, unit=None, **arguments):
    session.prefill(unit or UnitInput(audio=SECOND))
    return session.generate(**arguments)


def test_a_listening_unit_takes_thirteen_rows_and_returns_a_second_of_silence(start, special):
    session = start([special.listen])
    before = len(session.sequence)
    fed = session.prefill(UnitInput(audio=SECOND))
    assert (fed.is_success, fed.fed) == (True, (special.unit_start, ("audio", 10)))
    result = session.generate()
    assert (result.is_listen, result.terminator, result.decided_ids) == (True, special.listen, ())
    assert result.end.fed_ids == (special.unit_end,)
    assert len(session.sequence) - before == 13
    assert result.waveform.shape == (24_000,)
    assert not result.waveform.any()


def test_the_first_token_of_a_unit_is_fed_but_neither_spoken_nor_shown(start, special):
    session = start([WORD + 1, WORD, WORD])
    result = step(session)
    assert result.decided_ids == (WORD + 1, WORD, WORD)
    assert result.ids == (WORD, WORD)
    assert len(result.speech.condition) == 3  # two ids and audio_bos
    assert result.text == session._model.tokenizer.decode([WORD, WORD], skip_special=True)
    assert session.is_turn_open


def test_a_unit_without_words_conditions_on_audio_bos_alone(start, special):
    assert len(step(start([special.speak])).speech.condition) == 1


def test_a_listen_inside_an_open_turn_becomes_tts_bos(start, special):
    session = start([special.speak, WORD], [special.listen, WORD])
    step(session)
    result = step(session)
    assert result.decided_ids == (special.tts_bos, WORD)
    assert not result.is_listen
    assert result.terminator == special.chunk_eos


def test_a_unit_that_ends_by_listening_after_turn_eos_says_nothing_and_resets_nothing(start, voice, special):
    session = start([special.speak, WORD], [WORD, WORD, special.turn_eos, special.listen])
    step(session)
    position = session.speaker.position
    result = step(session)
    assert (result.is_listen, result.text, result.speech, result.end_of_turn) == (True, "", None, False)
    assert result.ids == (WORD, special.turn_eos)
    assert not session.is_turn_open
    assert session.speaker.position == position > 0
    assert len(voice.pushed) == 1


def test_turn_eos_ends_the_turn_and_the_talker_starts_afresh(start, voice, special):
    session = start([special.speak, WORD, special.turn_eos])
    result = step(session)
    assert (result.end_of_turn, session.is_turn_open, session.speaker.position) == (True, False, 0)
    assert voice.pushed == [(len(result.speech.codes), True, True)]
    assert result.speech.min_codes == 0


def test_words_behind_turn_eos_open_the_turn_again(start, special):
    session = start([special.speak, special.turn_eos, WORD])
    assert not step(session).end_of_turn
    assert session.is_turn_open


def test_the_last_step_ends_the_chunk_without_asking(start, special):
    session = start([WORD] * 50)
    result = step(session)
    assert result.decided_ids == (WORD,) * 19
    assert result.terminator == special.chunk_eos
    assert session.decider._logits_bias.asked[-1] == (0, 18)


def test_a_middle_unit_speaks_a_full_second_of_codes(start, voice, special):
    session = start([special.speak, WORD], [WORD, WORD])
    step(session)
    speech = step(session).speech
    assert (len(speech.codes), speech.min_codes) == (25, 26)
    assert voice.pushed[1] == (25, False, False)
    assert speech.waveform.shape == (24_000,)


def test_speech_shorter_than_a_second_has_its_silence_in_front(start, voice, special, monkeypatch):
    monkeypatch.setattr(voice, "push", lambda codes, **_: torch.ones(20_160))
    waveform = step(start([special.speak, WORD])).waveform
    assert waveform.shape == (24_000,)
    assert (int(waveform[:3840].sum()), int(waveform.sum())) == (0, 20_160)


def test_the_end_of_a_turn_is_not_filled_up(start, voice, special, monkeypatch):
    monkeypatch.setattr(voice, "push", lambda codes, **_: torch.ones(6720))
    assert step(start([special.speak, special.turn_eos])).waveform.shape == (6720,)


def test_the_first_units_listen_without_asking_the_model(start, special):
    session = start([WORD], [WORD], [special.speak, WORD], force_listen_count=2)
    assert [step(session).is_listen for _ in range(3)] == [True, True, False]
    assert session.decider._logits_bias.asked[0] == (2, 0)


def test_a_forced_listen_closes_the_turn_and_resets_only_the_voice(start, voice, special):
    session = start([special.speak, WORD], rules=UNIFIED_RULES)
    step(session)
    session.finish_unit()
    position = session.speaker.position
    result = step(session, force_listen=True)
    assert (result.decided_ids, result.terminator) == ((special.turn_eos,), special.listen)
    assert (result.ids, result.is_listen) == ((), True)
    assert (voice.num_resets, session.speaker.position, session.is_turn_open) == (1, position, False)


def test_a_forced_listen_outside_a_turn_only_listens(start, voice, special):
    result = step(start([WORD]), force_listen=True)
    assert (result.decided_ids, result.terminator, voice.num_resets) == ((), special.listen, 0)


def test_short_audio_leaves_an_orphan_and_the_next_attempt_succeeds(start, special):
    session = start([special.listen], [], [special.listen])
    step(session)
    length = len(session.sequence)
    prefill = session.prefill(UnitInput(audio=SECOND[:8000]))
    assert (prefill.is_success, prefill.fed) == (False, (special.unit_start,))
    assert prefill.reason == "audio not enough: need 16000 samples, only 8080"
    result = session.generate()
    assert (result.is_listen, result.terminator, result.end) == (True, None, None)
    assert len(session.sequence) == length + 1
    step(session, UnitInput(audio=SECOND[:8000]))
    assert [(unit.length, unit.num_orphans) for unit in session.window.units] == [(13, 0), (13, 1)]
    assert session.num_media_units == 2


def test_samples_that_wait_make_a_unit_without_new_ones(start):
    session = start()
    step(session, UnitInput(audio=np.zeros(40_000, dtype=np.float32)))
    assert session.prefill(UnitInput(audio=SECOND[:0])).is_success


def test_a_typed_unit_is_its_ids_alone_and_no_unit_of_time(start, special):
    session = start([special.listen])
    result = session.prefill(UnitInput(text="ab<unit>"))
    ids = session._model.tokenizer.encode_plain("ab<unit>")
    assert result.fed == (special.unit_start, *ids)
    assert session.sequence.fed == [1, len(ids)]
    session.generate()
    assert (session.window.units[0].kind, session.num_media_units) == ("text", 0)


@pytest.mark.parametrize(("batches_vision", "feeds"), [(False, [1, *[1, 4, 1] * 4, 10]), (True, [1, 24, 10])])
def test_images_come_before_audio_with_their_slices(start, special, batches_vision, feeds):
    session = start(batches_vision=batches_vision)
    frames = (Image.new("RGB", (56, 56)), Image.new("RGB", (112, 56)))
    fed = session.prefill(UnitInput(audio=SECOND, frames=frames, max_slices=[1, 2])).fed
    image = (special.image_start, ("img", 4), special.image_end)
    piece = (special.slice_start, ("img", 4), special.slice_end)
    assert fed == (special.unit_start, *image, *image, *piece, *piece, ("audio", 10))
    assert session.sequence.fed == feeds


def test_a_number_of_slices_for_another_number_of_frames_is_refused(start):
    with pytest.raises(MediaError, match="1 frames but 2"):
        start().prefill(UnitInput(frames=(Image.new("RGB", (56, 56)),), max_slices=[1, 2]))


def test_unified_stops_before_the_text_has_28_characters(start, special):
    session = start([special.speak, *[WORD] * 40], rules=UNIFIED_RULES, max_tokens=60)
    result = step(session)
    assert len(result.text) == 27
    assert result.terminator == special.chunk_eos


def test_base_has_no_text_cap(start, special):
    assert len(step(start([special.speak, *[WORD] * 40], max_tokens=60)).text) == 40


def test_unified_feeds_terminator_and_unit_end_together_when_told(start, special):
    session = start([special.listen], rules=UNIFIED_RULES)
    result = step(session)
    assert result.end is None
    length = len(session.sequence)
    with pytest.raises(PromptError, match="not finished"):
        session.prefill(UnitInput(audio=SECOND))
    assert session.finish_unit().fed_ids == (special.listen, special.unit_end)
    assert (session.sequence.fed[-1], len(session.sequence)) == (2, length + 2)
    assert session.finish_unit() is None


def test_both_variants_leave_the_same_context(start, special):
    script = ([special.speak, WORD], [WORD, special.turn_eos])
    base, unified = start(*script), start(*script, rules=UNIFIED_RULES)
    for _ in script:
        step(base)
        step(unified)
        unified.finish_unit()
    for layer in range(2):
        torch.testing.assert_close(base.sequence.cache.layer(layer), unified.sequence.cache.layer(layer))


def test_without_audio_a_speaking_unit_is_mute_in_base_and_silent_in_unified(start, special):
    assert step(start([special.speak], generate_audio=False)).waveform is None
    waveform = step(start([special.speak], generate_audio=False, rules=UNIFIED_RULES)).waveform
    assert not waveform.any()


@pytest.mark.parametrize("rules", [BASE_RULES, UNIFIED_RULES])
def test_the_prompt_may_go_in_one_by_one_or_at_once(omni, rules):
    sequence = CountingSequence(omni.thinker)
    session = DuplexSession(omni, DuplexOptions(rules=rules, generate_audio=False), noise=Argmax(), sequence=sequence)
    session.prepare("hi", SECOND)
    assert (len(sequence.fed) == 3) is rules.batches_prompt
    assert 10 in sequence.fed  # the reference voice
    assert session.window.num_preserved == len(sequence) == sum(sequence.fed)


def test_context_window_refeeds_the_words_of_a_dropped_unit(start, special):
    window = WindowConfig(mode=WindowMode.CONTEXT, max_units=1)
    session = start([special.speak, WORD, WORD + 1, special.turn_eos], [special.listen], window=window)
    preserved = session.window.num_preserved
    step(session)
    cut = step(session).end.cut
    marker = session._model.tokenizer.encode_plain("\n\nprevious: ")
    assert cut.refeed_ids[: len(marker) + 2] == (*marker, WORD, WORD + 1)
    assert session.window.num_preserved == preserved + len(marker) + 2
    assert len(session.sequence) == cut.length == session.window.num_preserved + 13


def test_basic_window_drops_whole_units_above_the_high_mark(start, special):
    session = start(*[[special.listen]] * 4, window=WindowConfig(mode=WindowMode.BASIC, high_tokens=50, low_tokens=30))
    preserved = session.window.num_preserved
    lengths = []
    for _ in range(4):
        step(session)
        lengths.append(len(session.sequence) - preserved)
    assert lengths == [13, 26, 39, 13]
    assert [unit.id for unit in session.window.units] == [3]


def test_a_session_without_a_window_is_refused_before_its_context_overflows(make_omni, start):
    session = start(model=make_omni(max_positions=100))
    while len(session.sequence) + 11 + 22 <= 100:  # the unit, 20 decisions, a forced turn_eos and </unit>
        step(session)
    length = len(session.sequence)
    with pytest.raises(ContextLengthError, match=f"{100 - length} of 100 are left"):
        session.prefill(UnitInput(audio=SECOND))
    assert len(session.sequence) == length


def test_the_decision_history_keeps_drawn_ids_and_no_forced_ones(start, special):
    session = start([special.speak, WORD], [special.listen, WORD], [WORD] * 30, force_listen_count=0)
    step(session)
    step(session)  # its listen is fed as tts_bos and remembered as listen
    assert session.decider._history == [special.speak, WORD, special.listen, WORD]
    step(session, force_listen=True)
    assert len(session.decider._history) == 4


def test_misuse_is_refused(omni, start):
    session = start()
    with pytest.raises(PromptError, match="needs audio"):
        session.prefill(UnitInput())
    with pytest.raises(PromptError, match="already"):
        session.prepare()
    session.prefill(UnitInput(audio=SECOND))
    with pytest.raises(PromptError, match="not finished"):
        session.prefill(UnitInput(audio=SECOND))
    fresh = DuplexSession(omni, DuplexOptions(generate_audio=False), noise=Argmax())
    with pytest.raises(PromptError, match="prepare"):
        fresh.prefill(UnitInput(audio=SECOND))
    with pytest.raises(ConfigError, match="voice"):
        DuplexSession(replace(omni, talker=None), DuplexOptions(), noise=Argmax())
    with pytest.raises(ConfigError):
        DuplexOptions(max_tokens=0)
    with pytest.raises(ConfigError):
        DuplexOptions(force_listen_count=-1)
