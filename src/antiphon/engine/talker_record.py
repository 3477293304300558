"""One draw for a batch of rows, and what it changes in their state; all on the device, without the host."""

import torch
from torch import Tensor

from antiphon.engine.talker_draw import DrawParams, draw_rows, row_probs
from antiphon.layers.code_rows import FILLER, POISON, RING_CODES, Column


def draw_and_record(logits: Tensor, rows: Tensor, rules: Tensor, *, num_candidates: int, has_fed: bool) -> Tensor:
    """Draw the next code of each row that is not done, and advance the row.

    Args:
        logits: [B, V] float32; the last id ends the speech.
        rows: state of the rows, [B, NUM_COLUMNS] int64, changed in place.
        rules: temperature, penalty and tail, [B, 3] float32.
        num_candidates: as for `filter_rows`.
        has_fed: the last code was fed for these scores and is in the cache now (not so behind a condition).

    Returns:
        The codes [B] int64, the end code included; FILLER of rows that were done, POISON of broken ones.
    """
    num_history = rows[:, Column.NUM_HISTORY]
    ring = rows[:, Column.RING :]
    age = (num_history[:, None] - 1 - torch.arange(RING_CODES, device=rows.device)) % RING_CODES
    seen = torch.minimum(num_history, rows[:, Column.WINDOW])
    probs = row_probs(
        logits,
        ring,
        age < seen[:, None],
        DrawParams(
            temperature=rules[:, 0],
            penalty=rules[:, 1],
            tail=rules[:, 2],
            top_k=rows[:, Column.TOP_K],
            min_keep=rows[:, Column.MIN_KEEP],
            has_filters=rows[:, Column.HAS_FILTERS] != 0,
            is_greedy=rows[:, Column.IS_GREEDY] != 0,
        ),
        is_first=num_history == 0,
        masks_end=rows[:, Column.STEP] < rows[:, Column.MIN_DRAWS],
        num_candidates=num_candidates,
    )
    drawn = draw_rows(probs, rows[:, Column.SEED], rows[:, Column.DRAW], rows[:, Column.IS_GREEDY] != 0)
    is_poisoned = ~torch.isfinite(logits.amax(-1) + probs.amax(-1))  # the filters may drop what is not a number
    is_active = rows[:, Column.IS_DONE] == 0
    is_end = (drawn == logits.shape[-1] - 1) | is_poisoned
    is_code = is_active & ~is_end
    place = num_history[:, None] % RING_CODES
    ring.scatter_(1, place, torch.where(is_code[:, None], drawn[:, None], ring.gather(1, place)))
    rows[:, Column.CODE] = torch.where(is_code, drawn, rows[:, Column.CODE])
    rows[:, Column.NUM_HISTORY] += is_code
    rows[:, (Column.POSITION if has_fed else Column.DRAW) : Column.STEP + 1] += is_active[:, None]
    rows[:, Column.IS_DONE] |= (is_end | (rows[:, Column.STEP] >= rows[:, Column.MAX_DRAWS])).long()
    return drawn.masked_fill(is_poisoned, POISON).masked_fill(~is_active, FILLER)
