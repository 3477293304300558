import torch

from antiphon.pipeline.eager.talker_condition import chat_condition, close_condition, condition_rows, unit_condition

HIDDEN = torch.randn(6, 12, generator=torch.Generator().manual_seed(3))
BOS, EOS, END = 30, 31, 32


def chat(talker, ids, hidden, first_position=0):
    return chat_condition(
        talker, ids, hidden, first_position=first_position, tts_bos_id=BOS, tts_eos_id=EOS, stop_ids=(END,)
    )


def special(talker, token_id):
    return talker.embed_text(torch.tensor([token_id]))[0]


def test_a_unit_ends_with_audio_bos_and_never_with_text_eos(make_talker):
    talker = make_talker()
    condition = unit_condition(talker, [4, 5], [HIDDEN[0], HIDDEN[1]])
    torch.testing.assert_close(condition[:2], talker.condition(torch.tensor([4, 5]), HIDDEN[:2]))
    assert torch.equal(condition[2:], special(talker, 38)[None])


def test_an_empty_unit_is_audio_bos_alone(make_talker):
    talker = make_talker()
    assert torch.equal(unit_condition(talker, [], []), special(talker, 38)[None])


def test_the_last_text_is_closed_by_text_eos_before_audio_bos(make_talker):
    talker = make_talker()
    closed = close_condition(talker, condition_rows(talker, [4], [HIDDEN[0]]), has_text_eos=True)
    assert torch.equal(closed[1:], torch.stack((special(talker, 39), special(talker, 38))))


def test_a_chat_answer_pairs_every_id_with_the_row_of_the_same_id(make_talker):
    talker = make_talker()
    condition = chat(talker, [1, BOS, 4, 5, EOS, END], HIDDEN)
    torch.testing.assert_close(condition[:2], talker.condition(torch.tensor([4, 5]), HIDDEN[2:4]))
    assert len(condition) == 2 + 2


def test_hidden_rows_may_start_at_a_later_position(make_talker):
    talker = make_talker()
    ids = [1, BOS, 4, 5, EOS, END]
    torch.testing.assert_close(chat(talker, ids, HIDDEN[1:], first_position=1), chat(talker, ids, HIDDEN))


def test_an_answer_without_tts_eos_is_spoken_as_far_as_rows_go(make_talker):
    # The reference fails on this with a shape mismatch.
    assert len(chat(make_talker(), [1, BOS, 4, 5, 6, 7, END], HIDDEN)) == 4 + 2


def test_an_answer_without_speech_has_no_condition(make_talker):
    assert chat(make_talker(), [1, BOS, EOS, END], HIDDEN[:4]) is None
    assert chat(make_talker(), [1, 4, 5, END], HIDDEN[:4]) is None
