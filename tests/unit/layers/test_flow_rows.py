"""The integers that a launch sends to the flow."""

import numpy as np
import torch

from antiphon.layers.flow_rows import RowLayout
from antiphon.layers.speech_shapes import ChunkPositions, FlowCapacity

CAPACITY = FlowCapacity(max_prompt_frames=20, num_tail_frames=10, max_chunk_codes=7, num_slots=2)
CHUNK = ChunkPositions(
    noise_offset=6,
    token_past=np.array([4, 1, 2]),
    frame_past=np.array([5, 0, 1, 2, 3, 4]),
    token_writes=np.array([0, 3]),
    frame_writes=np.array([6, 7, 8, 9]),
    solver_writes=np.array([9, 8, 7, 6]),
    solver_seen=np.array([9, 8, 7, 6, 0, 1]),
)


def filled() -> tuple[RowLayout, torch.Tensor]:
    layout = RowLayout(CAPACITY, width=4, lookahead=3)
    rows = np.full((2, layout.size), -1, np.int64)
    for row in rows:
        layout.fill(row, 1, [11, 12, 13, 14, 15], 2, CHUNK)
    return layout, torch.from_numpy(rows)


def test_fields_come_back_as_they_were_filled() -> None:
    layout, rows = filled()
    fields = layout.split(rows)
    scalars = (fields.slot, fields.num_codes, fields.num_voiced, fields.noise_offset)
    assert [scalar.tolist() for scalar in scalars] == [[1, 1], [5, 5], [2, 2], [6, 6]]
    assert fields.codes[1].tolist() == [11, 12, 13, 14, 15, 0, 0]
    assert fields.solver_seen[0].nonzero().flatten().tolist() == [0, 1, 6, 7, 8, 9]


def test_what_a_short_chunk_leaves_goes_to_junk_entries() -> None:
    layout, rows = filled()
    fields = layout.split(rows)
    assert fields.token_writes[0].tolist() == [0, 3] + [CAPACITY.token_size - 1] * 2
    assert fields.frame_writes[0].tolist() == [6, 7, 8, 9] + [CAPACITY.frame_size - 1] * 4
    assert fields.solver_writes[0].tolist() == [9, 8, 7, 6] + [CAPACITY.solver_size - 1] * 4


def test_the_past_is_right_aligned() -> None:
    layout, rows = filled()
    fields = layout.split(rows)
    assert fields.token_past[0, -3:].tolist() == [4, 1, 2]
    assert fields.frame_past[0, -6:].tolist() == [5, 0, 1, 2, 3, 4]
    assert (fields.num_token_past[0], fields.num_frame_past[0]) == (3, 6)
    assert fields.token_past.shape[1] == CAPACITY.kept_tokens


def test_a_buffer_has_room_for_what_is_kept_a_chunk_and_junk() -> None:
    assert CAPACITY.token_size == 15 + 7 + 1
    assert CAPACITY.frame_size == 30 + 14 + 1
    assert CAPACITY.solver_size == 48
