"""How the S3 tokenizer reads over 30 s: in overlapping windows whose codec ids are joined in mid-overlap.

Model specification, section 4.1.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

FRAMES_PER_S = 100  # of the tokenizer's log-mel
CODES_PER_S = 25
WINDOW_S, OVERLAP_S = 30, 4


def window_spans(num_frames: int) -> list[tuple[int, int]]:
    """Half-open frame ranges to tokenize: one up to 30 s, else windows of 30 s that start every 26 s.

    A window starts wherever sound is left, even if the one before it reached the end already: the reference's rule.
    """
    window, step = WINDOW_S * FRAMES_PER_S, (WINDOW_S - OVERLAP_S) * FRAMES_PER_S
    if num_frames <= window:
        return [(0, num_frames)]
    return [(start, min(start + window, num_frames)) for start in range(0, num_frames, step)]


def join_codes(windows: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Join the codec ids of consecutive windows: each gives up half of every overlap it takes part in."""
    half = OVERLAP_S // 2 * CODES_PER_S
    last = len(windows) - 1
    kept = [
        codes[0 if index == 0 else half : len(codes) if index == last else len(codes) - half]
        for index, codes in enumerate(windows)
    ]
    return np.concatenate(kept)
