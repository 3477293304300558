"""Decides where a stream's cache entries lie in its slot, and which of them outlive a chunk.

Model specification, section 4.6, and optimisation specification, 2.2.2. Entries are never moved: the host keeps the
logical order of each cache as a list of buffer positions, trims the list by the reference's rule, and hands the lists
to the device. Torch-free.
"""

import numpy as np

from antiphon.layers.speech_shapes import FRAMES_PER_CODE, ChunkPositions, FlowCapacity, Positions


class StreamPositions:
    """The logical order of one stream's caches. Invariant: no cache is longer than prompt + tail between chunks."""

    def __init__(self, capacity: FlowCapacity, num_prompt_frames: int) -> None:
        assert num_prompt_frames <= capacity.max_prompt_frames
        self.capacity = capacity
        self.num_prompt_frames = num_prompt_frames
        self.solver = np.empty(0, np.int64)  # newest chunk first, frames inside a chunk in order
        self.frames = np.empty(0, np.int64)  # oldest first
        self.tokens = np.empty(0, np.int64)  # oldest first
        self.restart()

    def restart(self) -> None:
        """A turn starts: each cache holds the prompt, in order, at its buffer's front."""
        self.solver = np.arange(self.num_prompt_frames)
        self.frames = np.arange(self.num_prompt_frames)
        self.tokens = np.arange(self.num_prompt_frames // FRAMES_PER_CODE)

    def advance(self, num_codes: int) -> ChunkPositions:
        """Place the next chunk of *num_codes* voiced ids, then forget what the rule drops."""
        num_frames = FRAMES_PER_CODE * num_codes
        token_writes = _free(self.tokens, self.capacity.token_size, num_codes)
        frame_writes = _free(self.frames, self.capacity.frame_size, num_frames)
        solver_writes = _free(self.solver, self.capacity.solver_size, num_frames)
        past_tokens, past_frames = self.tokens, self.frames
        self.solver = np.concatenate((solver_writes, self.solver))
        self.frames = np.concatenate((self.frames, frame_writes))
        self.tokens = np.concatenate((self.tokens, token_writes))
        chunk = ChunkPositions(
            len(past_frames), past_tokens, past_frames, token_writes, frame_writes, solver_writes, self.solver
        )
        self._trim()
        return chunk

    def _trim(self) -> None:
        """Keep the first P and the last 100 entries of every cache that is longer.

        For the solver that is the newest frames and the tail of the prompt. Trap: the reference applies the same slices
        to a token-rate array that holds everything twice, and reads its first half; so the token rate keeps its
        earliest entries (with a short prompt some of them twice) and never the newest.
        """
        head, tail = self.num_prompt_frames, self.capacity.num_tail_frames
        length = len(self.frames)
        if length <= head + tail:
            return
        kept = np.concatenate((np.arange(head), np.arange(length - tail, length)))
        self.solver, self.frames = self.solver[kept], self.frames[kept]
        self.tokens = self.tokens[kept[: len(kept) // 2] % len(self.tokens)]


def _free(used: Positions, size: int, count: int) -> Positions:
    """The first *count* positions that *used* does not name; the last of the buffer is junk and never free."""
    is_free = np.ones(size, np.bool_)
    is_free[used] = False
    is_free[-1] = False
    return np.flatnonzero(is_free)[:count]
