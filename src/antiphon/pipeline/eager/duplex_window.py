"""Carries out a context window's decision on a Thinker sequence: rows leave, kept keys turn to their new positions."""

import torch

from antiphon.engine.context_window import Cut
from antiphon.pipeline.eager.thinker import ThinkerSequence


def apply_cut(sequence: ThinkerSequence, cut: Cut) -> None:
    """Shorten the cache as *cut* says. Values and everything the kept rows once attended to stay as they are."""
    cache = sequence.cache
    start, end = cut.tail
    tail = cache.clone() if start < end else None
    cache.keep([cut.prefix])
    if cut.refeed_ids:
        sequence.feed_ids(cut.refeed_ids)
    if tail is None:
        return
    tail.keep([cut.tail])
    num_rows, new_start = end - start, len(cache)
    assert new_start + num_rows == cut.length
    shift = torch.full((num_rows,), new_start - start, dtype=torch.int64, device=sequence.device)
    tail.rotate_keys(0, num_rows, shift, sequence.thinker.llm.model.rope)
    for layer in range(len(cache.keys)):
        keys, values = tail.layer(layer)
        cache.append(layer, keys.transpose(0, 1), values.transpose(0, 1))
