"""Where cache entries lie, against the reference's rule carried out on real arrays of labels."""

import random

import numpy as np
import pytest

from antiphon.engine.code2wav_positions import StreamPositions
from antiphon.layers.speech_shapes import FlowCapacity

TAIL = 100


class LabelledCaches:
    """The three caches as the reference moves them, holding labels: (chunk, place in the chunk)."""

    def __init__(self, num_prompt_frames: int) -> None:
        self.num_prompt_frames = num_prompt_frames
        self.solver = [(0, place) for place in range(num_prompt_frames)]
        self.frames = list(self.solver)
        self.doubled = [(0, place) for place in range(num_prompt_frames // 2)] * 2
        self.num_chunks = 0

    def advance(self, num_codes: int) -> None:
        self.num_chunks += 1
        new = [(self.num_chunks, place) for place in range(2 * num_codes)]
        self.solver = self._trim(new + self.solver)
        self.frames = self._trim(self.frames + new)
        tokens = self.doubled[: len(self.doubled) // 2] + new[:num_codes]
        self.doubled = self._trim(tokens * 2)

    def _trim(self, cache: list[tuple[int, int]]) -> list[tuple[int, int]]:
        head = self.num_prompt_frames
        return cache if len(cache) <= head + TAIL else cache[:head] + cache[-TAIL:]


@pytest.mark.parametrize("num_prompt_frames", [0, 2, 30, 50, 98, 100, 102, 300, 354])
def test_what_lies_at_the_listed_positions_is_what_the_reference_keeps(num_prompt_frames: int) -> None:
    rng = random.Random(num_prompt_frames)
    capacity = FlowCapacity(354, TAIL, 28, 1)
    positions, oracle = StreamPositions(capacity, num_prompt_frames), LabelledCaches(num_prompt_frames)
    solver = {place: (0, place) for place in range(num_prompt_frames)}
    frames = dict(solver)
    tokens = {place: (0, place) for place in range(num_prompt_frames // 2)}
    for number in range(1, 14):
        num_codes = rng.choice([25, 25, 25, 5, 13, 1, 28])
        before = list(oracle.frames), oracle.doubled[: len(oracle.doubled) // 2], list(oracle.solver)
        chunk = positions.advance(num_codes)
        assert chunk.noise_offset == len(before[0])
        assert [frames[place] for place in chunk.frame_past.tolist()] == before[0]
        assert [tokens[place] for place in chunk.token_past.tolist()] == before[1]
        for buffer, writes in (
            (solver, chunk.solver_writes),
            (frames, chunk.frame_writes),
            (tokens, chunk.token_writes),
        ):
            buffer.update({place: (number, index) for index, place in enumerate(writes.tolist())})
        seen = [solver[place] for place in chunk.solver_seen.tolist()]
        assert seen == [(number, index) for index in range(2 * num_codes)] + before[2]
        oracle.advance(num_codes)


def test_no_entry_is_written_over_one_that_is_still_seen() -> None:
    rng = random.Random(3)
    positions = StreamPositions(FlowCapacity(60, TAIL, 28, 1), 60)
    for _ in range(50):
        kept = positions.solver, positions.frames, positions.tokens
        chunk = positions.advance(rng.randint(1, 28))
        for entries, writes in zip(kept, (chunk.solver_writes, chunk.frame_writes, chunk.token_writes), strict=True):
            assert not np.intersect1d(entries, writes).size
            assert len(set(writes.tolist())) == len(writes)


def test_the_last_entry_of_a_buffer_is_never_lent() -> None:
    capacity = FlowCapacity(354, TAIL, 28, 1)
    positions = StreamPositions(capacity, 354)
    for _ in range(8):
        chunk = positions.advance(28)
        assert len(chunk.solver_writes) == 56
        assert chunk.solver_writes.max() < capacity.solver_size - 1
        assert chunk.frame_writes.max() < capacity.frame_size - 1
        assert chunk.token_writes.max() < capacity.token_size - 1


def test_a_new_turn_starts_from_the_prompt_alone() -> None:
    positions = StreamPositions(FlowCapacity(100, TAIL, 28, 1), 40)
    first = positions.advance(25)
    positions.advance(25)
    positions.restart()
    again = positions.advance(25)
    assert np.array_equal(first.solver_seen, again.solver_seen)
    assert again.noise_offset == 40
