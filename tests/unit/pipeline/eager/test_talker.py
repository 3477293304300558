"""The tiny Talker has 32 codec ids, of which 31 ends the speech; the recording noise never ends unless scripted."""

import pytest
import torch

from antiphon.core.errors import ContextLengthError
from antiphon.engine.talker_sampling import TalkerSampling
from antiphon.pipeline.eager.talker import CodeStop, TalkerSequence

EOS = 31


def condition(length, seed=0):
    return torch.randn(length, 16, generator=torch.Generator().manual_seed(seed))


def test_the_end_code_is_masked_below_the_minimum_and_free_from_there_on(make_talker, recording):
    noise = recording()
    sampling = TalkerSampling(top_p=1.0, top_k=0)
    TalkerSequence(make_talker(), noise, sampling=sampling).generate(condition(4), min_codes=5, max_draws=8)
    assert [bool(probs[EOS] > 0) for probs in noise.seen] == [False] * 5 + [True] * 3


def test_the_default_minimum_is_fifty_codes(make_talker, recording):
    noise = recording()
    sampling = TalkerSampling(top_p=1.0, top_k=0)
    TalkerSequence(make_talker(), noise, sampling=sampling).generate(condition(4), max_draws=52)
    assert [bool(probs[EOS] > 0) for probs in noise.seen] == [False] * 50 + [True] * 2


def test_the_last_draw_before_the_limit_is_lost(make_talker, recording):
    noise = recording()
    spoken = TalkerSequence(make_talker(), noise).generate(condition(4), max_draws=7)
    assert (len(noise.seen), len(spoken.codes), spoken.stop) == (7, 6, CodeStop.LIMIT)


def test_an_end_at_the_first_draw_gives_no_codes(make_talker, recording):
    spoken = TalkerSequence(make_talker(), recording({0: EOS})).generate(condition(4))
    assert (spoken.codes, spoken.stop) == ((), CodeStop.EOS)


def test_a_new_condition_starts_from_an_empty_cache(make_talker, recording):
    sequence = TalkerSequence(make_talker(), recording())
    first = sequence.generate(condition(4), max_draws=6)
    assert sequence.generate(condition(4), max_draws=6) == first
    assert sequence.position == len(sequence.context.cache) == 4 + 5


def test_a_long_speech_ends_at_the_last_position_and_says_so(make_talker, recording):
    spoken = TalkerSequence(make_talker(max_positions=20), recording()).generate(condition(6))
    assert (len(spoken.codes), spoken.stop) == (13, CodeStop.CONTEXT)


def test_a_condition_that_fills_the_context_is_refused(make_talker, recording):
    with pytest.raises(ContextLengthError, match="20 tokens"):
        TalkerSequence(make_talker(max_positions=20), recording()).generate(condition(20))


def test_a_unit_feeds_all_codes_it_returns_and_never_the_26th(make_talker, recording):
    noise = recording()
    sequence = TalkerSequence(make_talker(), noise)
    lengths = [len(sequence.speak_unit(condition(n), ends_turn=False).codes) for n in (7, 1)]
    assert lengths == [25, 25]
    assert len(noise.seen) == 52
    assert sequence.position == len(sequence.context.cache) == 7 + 25 + 1 + 25


def test_units_of_a_turn_continue_each_other(make_talker, recording):
    talker = make_talker()
    sequence = TalkerSequence(talker, recording())
    first = sequence.speak_unit(condition(3), ends_turn=False)
    second = sequence.speak_unit(condition(2, seed=1), ends_turn=False)
    whole = TalkerSequence(talker, recording())
    codes = whole.context.embed_codes(list(first.codes))
    joined = torch.cat((condition(3), codes, condition(2, seed=1)))
    assert whole.generate_chunk(joined, min_codes=26).codes == second.codes


def test_only_the_first_and_the_last_unit_of_a_turn_may_end_early(make_talker, recording):
    noise = recording({5: EOS, 40: EOS})
    sequence = TalkerSequence(make_talker(), noise)
    counts = [len(sequence.speak_unit(condition(3), ends_turn=last).codes) for last in (False, False, True)]
    assert counts == [5, 25, 8]
    can_end = [bool(probs[EOS] > 0) for probs in noise.seen]
    assert can_end == [True] * 6 + [False] * 26 + [True] * 9


def test_the_end_of_a_turn_drops_its_state(make_talker, recording):
    sequence = TalkerSequence(make_talker(), recording())
    first = sequence.speak_unit(condition(3), ends_turn=True)
    assert sequence.position == len(sequence.context.cache) == 0
    assert sequence.speak_unit(condition(3), ends_turn=True) == first


def test_a_unit_is_not_filtered_and_its_penalty_forgets_earlier_units(make_talker, recording):
    shown = []
    for penalty in (1.0, 3.0):
        noise = recording(dict.fromkeys(range(60), 7))
        sequence = TalkerSequence(make_talker(), noise, sampling=TalkerSampling(repetition_penalty=penalty))
        sequence.speak_unit(condition(3), ends_turn=False)
        sequence.speak_unit(condition(3), ends_turn=False)
        shown.append(noise.seen)
    assert torch.equal(shown[0][26], shown[1][26])  # first draw of the second unit: no history
    assert not torch.equal(shown[0][27], shown[1][27])
    assert all(int((probs > 0).sum()) == 32 - (index >= 26) for index, probs in enumerate(shown[0]))


def test_a_turn_that_outgrows_the_context_rolls_over_with_the_latest_unit(make_talker, recording):
    talker = make_talker(max_positions=70)
    sequence = TalkerSequence(talker, recording())
    units = [sequence.speak_unit(condition(5, seed=n), ends_turn=False) for n in range(4)]
    assert [unit.has_rolled_over for unit in units] == [False, False, True, True]
    assert sequence.position == len(sequence.context.cache) == 5 + 25 + 5 + 25
    fresh = TalkerSequence(talker, recording())
    codes = fresh.context.embed_codes(list(units[2].codes))
    prompt = torch.cat((condition(5, seed=2), codes, condition(5, seed=3)))
    assert fresh.generate_chunk(prompt, min_codes=26).codes == units[3].codes


def test_a_rollover_leaves_the_latest_unit_out_where_both_do_not_fit(make_talker, recording):
    sequence = TalkerSequence(make_talker(max_positions=40), recording())
    assert not sequence.speak_unit(condition(5), ends_turn=False).has_rolled_over
    assert sequence.speak_unit(condition(5), ends_turn=False).has_rolled_over
    assert sequence.position == 5 + 25


def test_the_context_is_used_to_its_last_position(make_talker, recording):
    sequence = TalkerSequence(make_talker(max_positions=5 + 26), recording())
    assert not sequence.speak_unit(condition(5), ends_turn=False).has_rolled_over


def test_ten_minutes_of_one_turn_never_pass_the_limit(make_talker, recording):
    sequence = TalkerSequence(make_talker(max_positions=100), recording())
    for second in range(60):
        sequence.speak_unit(condition(second % 19 + 1), ends_turn=False)
        assert sequence.position <= 100


def test_a_unit_that_cannot_fit_at_all_is_an_error(make_talker, recording):
    with pytest.raises(ContextLengthError, match="shorter"):
        TalkerSequence(make_talker(max_positions=30), recording()).speak_unit(condition(5), ends_turn=False)
