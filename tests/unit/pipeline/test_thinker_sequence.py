"""A sequence fed in pieces is the sequence fed at once."""

from dataclasses import replace

import torch

from antiphon.config.checkpoint_files import shipped_model_config
from antiphon.models.thinker.thinker import Thinker
from antiphon.pipeline.eager.thinker import ThinkerSequence


def tiny_thinker() -> Thinker:
    torch.manual_seed(5)
    real = shipped_model_config()
    llm = replace(
        real.llm, hidden_size=128, intermediate_size=24, num_layers=2, num_heads=4, num_kv_heads=2, head_dim=6
    )
    vision = replace(real.vision, hidden_size=8, intermediate_size=8, num_layers=1, num_heads=1, table_side=4)
    audio = replace(real.audio, hidden_size=8, intermediate_size=8, num_layers=1, num_heads=1)
    config = replace(real, vocab_size=31, num_queries=2, llm=llm, vision=vision, audio=audio)
    return Thinker(config).eval().requires_grad_(False)


def test_pieces_of_any_length_give_the_hidden_rows_of_one_pass() -> None:
    thinker, ids = tiny_thinker(), [3, 1, 4, 1, 5, 9, 2, 6]
    whole = ThinkerSequence(thinker).feed_ids(ids)
    sequence = ThinkerSequence(thinker)
    pieces = [sequence.feed_ids(ids[a:b]) for a, b in ((0, 3), (3, 4), (4, 8))]
    torch.testing.assert_close(torch.cat(pieces), whole)
    assert len(sequence) == 8


def test_positions_continue_from_a_cut_cache() -> None:
    sequence = ThinkerSequence(tiny_thinker())
    sequence.feed_ids([1, 2, 3, 4])
    sequence.cache.keep([(0, 3)])
    after_cut = sequence.feed_ids([5])
    fresh = ThinkerSequence(sequence.thinker).feed_ids([1, 2, 3, 5])
    torch.testing.assert_close(after_cut, fresh[-1:])
