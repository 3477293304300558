"""The tiny Talker has 32 codec ids, of which 31 ends the speech; the recording noise never ends unless scripted."""

import pytest
import torch

from antiphon.core.errors import ConfigError, ContextLengthError
from antiphon.layers.rope import rotate
from antiphon.pipeline.eager.talker_condition import close_condition
from antiphon.pipeline.eager.talker_stream import CodeBlock, TalkerStream

EOS = 31


def rows(length, seed=0):
    return torch.randn(length, 16, generator=torch.Generator().manual_seed(seed))


def speak(stream, *lengths, last=False):
    """Speak pieces of these lengths, the last of them as the last text if *last*; all blocks."""
    return [
        block
        for index, length in enumerate(lengths)
        for block in stream.speak(rows(length, seed=index), is_last_text=last and index == len(lengths) - 1)
    ]


def test_blocks_come_as_soon_as_they_are_full(make_talker, recording):
    noise = recording()
    stream = TalkerStream(make_talker(), noise, block_size=4, max_codes=10)
    draws = []
    for block in stream.speak(rows(3), is_last_text=False):
        assert len(block.codes) == 4
        draws.append(len(noise.seen))
    assert draws == [4, 8]
    assert stream.num_buffered == 2


def test_codes_left_over_join_the_next_block(make_talker, recording):
    stream = TalkerStream(make_talker(), recording({3: EOS}), block_size=5, max_codes=4)
    blocks = speak(stream, 2, 2)
    assert [block.codes for block in blocks] == [tuple(stream.codes[:5])]
    assert len(stream.codes) == 3 + 4


def test_the_end_of_the_last_text_flushes_the_rest_as_final(make_talker, recording):
    stream = TalkerStream(make_talker(), recording({6: EOS}), block_size=4)
    blocks = speak(stream, 3, last=True)
    assert [(len(block.codes), block.is_final) for block in blocks] == [(4, False), (2, True)]
    assert stream.num_buffered == 0


def test_a_final_block_may_be_empty(make_talker, recording):
    stream = TalkerStream(make_talker(), recording({4: EOS}), block_size=4)
    assert speak(stream, 3, last=True)[-1] == CodeBlock((), is_final=True)


def test_an_end_in_the_middle_of_the_text_ends_only_that_piece(make_talker, recording):
    stream = TalkerStream(make_talker(), recording({2: EOS}), block_size=25, max_codes=6)
    assert speak(stream, 3, 3) == []
    assert len(stream.codes) == 2 + 6


def test_without_an_end_in_the_last_text_the_rest_stays_buffered(make_talker, recording):
    stream = TalkerStream(make_talker(), recording(), block_size=4, max_codes=6)
    assert [block.is_final for block in speak(stream, 3, last=True)] == [False]
    assert stream.take_buffered() == tuple(stream.codes[4:])
    assert stream.take_buffered() == ()


def test_there_is_no_minimum_and_only_the_very_first_code_of_a_turn_skips_the_filters(make_talker, recording):
    noise = recording()
    stream = TalkerStream(make_talker(), noise, max_codes=3)
    speak(stream, 3, 3)
    assert bool(noise.seen[0][EOS] > 0)
    counts = [int((probs > 0).sum()) for probs in noise.seen]
    assert counts[0] == 32
    assert all(count <= 25 for count in counts[1:])


def test_the_penalty_sees_the_codes_of_earlier_pieces(make_talker, recording):
    noise, other = recording({0: 7, 1: EOS}), recording({0: 8, 1: EOS})
    for source in (noise, other):
        stream = TalkerStream(make_talker(), source, attention_type="sliding_window", window_tokens=1, max_codes=1)
        speak(stream, 3, 3)
    assert not torch.equal(noise.seen[1], other.seen[1])


def test_a_stop_by_the_limit_leaves_a_gap_of_one_position(make_talker, recording):
    stream = TalkerStream(make_talker(), recording({9: EOS}), max_codes=6)
    speak(stream, 3, 3)
    assert stream.position == (4 + 6) + (4 + 3)
    assert len(stream.context.cache) == stream.position - 1


def test_the_last_text_is_closed_by_text_eos_and_audio_bos(make_talker, recording):
    stream = TalkerStream(make_talker(), recording({0: EOS}))
    speak(stream, 3, last=True)
    assert stream.position == 3 + 2


def test_a_sliding_window_is_cut_after_every_pass_and_positions_stay_absolute(make_talker, recording):
    stream = TalkerStream(make_talker(attention_type="sliding_window"), recording(), max_codes=6)
    speak(stream, 3)
    assert (stream.position, len(stream.context.cache)) == (4 + 6, 4 + 5)
    speak(stream, 9)
    assert (stream.position, len(stream.context.cache)) == (4 + 6 + 10 + 6, 12)


def test_sliding_recompute_reads_the_previous_piece_and_all_its_codes_again(make_talker, recording):
    talker = make_talker()
    stream = TalkerStream(talker, recording(), attention_type="sliding_recompute", max_codes=6)
    speak(stream, 3, 5, 2)
    assert stream.position == (6 + 6) + (3 + 6)
    assert len(stream.context.cache) == stream.position - 1
    first = torch.cat(
        (
            close_condition(talker, rows(5, seed=1), has_text_eos=False),
            stream.context.embed_codes(stream.codes[6:12]),
            close_condition(talker, rows(2, seed=2), has_text_eos=False),
        )
    )
    fresh = TalkerStream(talker, recording())
    fresh.context.feed(first)
    torch.testing.assert_close(stream.context.cache.layer(0)[0][:, : len(first)], fresh.context.cache.layer(0)[0])


def test_reindex_acts_before_the_fourth_piece_and_keeps_the_first_and_the_latest(make_talker, recording):
    talker = make_talker()
    stream = TalkerStream(talker, recording({2: EOS, 6: EOS, 11: EOS}), attention_type="reindex", max_codes=6)
    speak(stream, 3, 3, 3)
    before = stream.context.cache.layer(0)[0]
    first, latest, length = 4 + 2, 4 + 4, before.shape[1]
    assert length == (4 + 2) + (4 + 3) + (4 + 4)
    list(stream.speak(rows(2), is_last_text=False))
    after = stream.context.cache.layer(0)[0]
    assert stream.position == first + latest + 3 + 6
    assert torch.equal(after[:, :first], before[:, :first])
    j = 5  # an entry of the kept block
    angle = torch.tensor([(first + j) - (length - latest)])
    turned = rotate(before[:, length - latest + j][None], *talker.model.rope.cos_sin(angle))[0]
    torch.testing.assert_close(after[:, first + j], turned)


def test_reindex_acts_again_before_the_fifth_piece(make_talker, recording):
    stream = TalkerStream(make_talker(), recording(), attention_type="reindex", max_codes=6)
    speak(stream, 3, 3, 3, 3, 3)
    assert stream.position == 3 * (4 + 6)


def test_an_unknown_attention_type_is_refused(make_talker, recording):
    with pytest.raises(ConfigError, match="reindexed"):
        TalkerStream(make_talker(), recording(), attention_type="reindexed")


@pytest.mark.parametrize("attention_type", ["full_attention", "sliding_window", "sliding_recompute", "reindex"])
def test_no_attention_type_passes_the_last_position(make_talker, recording, attention_type):
    stream = TalkerStream(make_talker(max_positions=45), recording(), attention_type=attention_type, max_codes=9)
    for piece in range(12):
        list(stream.speak(rows(piece % 5 + 1), is_last_text=False))
        assert stream.position <= 45
    assert len(stream.codes) == 12 * 9


def test_a_rollover_is_counted_and_keeps_the_previous_piece_with_its_codes(make_talker, recording):
    stream = TalkerStream(make_talker(max_positions=40), recording(), max_codes=9)
    speak(stream, 3, 3)
    assert (stream.num_rollovers, stream.position) == (0, 26)
    speak(stream, 3)
    assert (stream.num_rollovers, stream.position) == (0, 39)
    speak(stream, 3)
    assert (stream.num_rollovers, stream.position) == (1, 13 + 13)
    assert len(stream.context.cache) == stream.position - 1


def test_a_piece_that_cannot_fit_at_all_is_an_error(make_talker, recording):
    stream = TalkerStream(make_talker(max_positions=20), recording(), max_codes=10)
    with pytest.raises(ContextLengthError, match="shorter"):
        speak(stream, 12)
