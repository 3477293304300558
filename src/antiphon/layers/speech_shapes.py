"""Sizes and places on which the vocoding engine and its model agree. Torch-free."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FRAMES_PER_CODE = 2  # mel frames, 50 Hz
TILE = 16  # solver capacities are multiples of it, so that attention reads aligned masks

Positions = NDArray[np.int64]


@dataclass(frozen=True)
class FlowCapacity:
    """Sizes of one class of slots. A buffer has room for what is kept, one chunk, and one junk entry at its end."""

    max_prompt_frames: int  # longest voice prompt, mel frames
    num_tail_frames: int  # a cache is trimmed to the prompt's length plus this
    max_chunk_codes: int  # most codec ids voiced by one chunk
    num_slots: int

    @property
    def kept_frames(self) -> int:
        return self.max_prompt_frames + self.num_tail_frames

    @property
    def kept_tokens(self) -> int:
        return self.kept_frames // FRAMES_PER_CODE

    @property
    def token_size(self) -> int:
        return self.kept_tokens + self.max_chunk_codes + 1

    @property
    def frame_size(self) -> int:
        return self.kept_frames + FRAMES_PER_CODE * self.max_chunk_codes + 1

    @property
    def solver_size(self) -> int:
        return -(-self.frame_size // TILE) * TILE


@dataclass(frozen=True)
class ChunkPositions:
    """Where one chunk's cache entries go and what it sees, as positions in its slot's buffers."""

    noise_offset: int  # cache length before the chunk
    token_past: Positions  # [≤ kept_tokens] oldest first; may repeat entries
    frame_past: Positions  # [≤ kept_frames] oldest first
    token_writes: Positions  # [F]
    frame_writes: Positions  # [2F]
    solver_writes: Positions  # [2F]
    solver_seen: Positions  # all valid entries, the chunk's own included


@dataclass(frozen=True)
class VocoderShape:
    """What the chunks of one vocoder batch have in common."""

    num_frames: int  # new mel frames
    has_past: bool  # not the first chunk of a turn
