"""The fake Thinker's hidden row of an id is the id itself, and it always wants to say the next number."""

import torch

from antiphon.engine.noise import Argmax
from antiphon.engine.simplex_sampling import SimplexSampling
from antiphon.pipeline.eager.text_chunks import TextChunks

STOP = 60


class CountingThinker:
    def logits(self, hidden):
        return torch.zeros(64).index_fill(0, hidden.long() + 1, 9.0)


class FakeSequence:
    def __init__(self):
        self.thinker = CountingThinker()
        self.fed = []

    def feed_ids(self, ids):
        self.fed += ids
        return torch.tensor(ids, dtype=torch.float32)[:, None]


def answer(sequence, *, stop_ids=(STOP,), **settings):
    return TextChunks(
        sequence,
        torch.tensor([0.0]),
        sampling=SimplexSampling(is_greedy=True),
        noise=Argmax(),
        stop_ids=stop_ids,
        forbidden_ids=settings.pop("forbidden_ids", ()),
        **settings,
    )


def read(chunks):
    out = []
    while not chunks.is_finished:
        chunk = chunks.next_chunk()
        assert chunk.hidden.shape == (len(chunk.ids), 1)
        assert chunk.hidden[:, 0].tolist() == list(chunk.ids)  # the row of the same id
        out.append((chunk.ids, chunk.is_final))
    return out


def test_the_first_call_draws_eleven_ids_and_every_call_delivers_ten():
    sequence = FakeSequence()
    chunks = answer(sequence)
    assert chunks.next_chunk().ids == tuple(range(1, 11))
    assert (len(chunks.ids), sequence.fed) == (11, list(range(1, 11)))
    assert chunks.next_chunk().ids == tuple(range(11, 21))
    assert len(chunks.ids) == 21


def test_a_terminator_ends_the_answer_and_is_never_fed():
    sequence = FakeSequence()
    assert read(answer(sequence, stop_ids=(15,))) == [(tuple(range(1, 11)), False), (tuple(range(11, 15)), True)]
    assert sequence.fed == list(range(1, 15))


def test_a_terminator_right_behind_the_tenth_id_makes_that_chunk_final():
    assert read(answer(FakeSequence(), stop_ids=(11,))) == [(tuple(range(1, 11)), True)]


def test_an_answer_that_begins_with_a_terminator_is_one_empty_final_chunk():
    assert read(answer(FakeSequence(), stop_ids=(1,))) == [((), True)]


def test_the_token_limit_is_exact_and_makes_no_chunk_final():
    sequence = FakeSequence()
    assert read(answer(sequence, max_new_tokens=14)) == [(tuple(range(1, 11)), False), (tuple(range(11, 15)), False)]
    assert sequence.fed == list(range(1, 15))
    assert read(answer(FakeSequence(), max_new_tokens=10)) == [(tuple(range(1, 11)), False)]


def test_forbidden_ids_are_not_said():
    assert 3 not in answer(FakeSequence(), forbidden_ids=(3,)).next_chunk().ids


def test_scores_can_be_adjusted_by_the_number_of_the_draw():
    def stop_at_third(step, logits):
        return logits.index_fill(0, torch.tensor([STOP]), 99.0) if step == 2 else logits

    assert read(answer(FakeSequence(), adjust_logits=stop_at_third)) == [((1, 2), True)]
