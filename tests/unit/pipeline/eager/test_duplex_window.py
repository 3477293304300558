"""Layer 0 keys depend on id and position only, so a correct cut equals feeding what is left afresh there."""

import pytest
import torch

from antiphon.engine.context_window import Cut
from antiphon.pipeline.eager.duplex_window import apply_cut
from antiphon.pipeline.eager.thinker import ThinkerSequence

IDS = list(range(40, 60))


@pytest.fixture
def sequence(omni):
    sequence = ThinkerSequence(omni.thinker)
    sequence.feed_ids(IDS)
    return sequence


def fresh_keys(omni, ids):
    sequence = ThinkerSequence(omni.thinker)
    sequence.feed_ids(ids)
    return sequence.cache.layer(0)[0]


def test_kept_keys_turn_to_their_new_positions(omni, sequence):
    values = sequence.cache.layer(1)[1]
    apply_cut(sequence, Cut((0, 4), (), (9, 20), 15, ()))
    torch.testing.assert_close(sequence.cache.layer(0)[0], fresh_keys(omni, IDS[:4] + IDS[9:]))
    assert torch.equal(sequence.cache.layer(1)[1], torch.cat((values[:, :4], values[:, 9:]), dim=1))


def test_refed_ids_stand_between_prefix_and_tail(omni, sequence):
    apply_cut(sequence, Cut((0, 4), (80, 81, 82), (5, 20), 22, ()))
    torch.testing.assert_close(sequence.cache.layer(0)[0], fresh_keys(omni, [*IDS[:4], 80, 81, 82, *IDS[5:]]))
    assert len(sequence) == 22


def test_refed_ids_see_the_prefix_only(omni, sequence):
    apply_cut(sequence, Cut((0, 4), (80, 81), (20, 20), 6, ()))
    alone = ThinkerSequence(omni.thinker)
    alone.feed_ids([*IDS[:4], 80, 81])
    for layer in range(2):
        torch.testing.assert_close(sequence.cache.layer(layer), alone.cache.layer(layer))


def test_the_next_token_goes_right_behind_what_is_left(omni, sequence):
    apply_cut(sequence, Cut((0, 4), (), (9, 20), 15, ()))
    sequence.feed_ids([90])
    torch.testing.assert_close(sequence.cache.layer(0)[0], fresh_keys(omni, [*IDS[:4], *IDS[9:], 90]))
