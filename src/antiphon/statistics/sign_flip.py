"""The paired randomisation test: if two treatments are alike, each difference could as well have the other sign."""

from collections.abc import Sequence

import numpy as np

NUM_FLIPS = 10_000
_MAX_EXACT = 13  # pairs; with more of them signs are drawn
_ROUNDING = 1e-12


def sign_flip_p_value(differences: Sequence[float], *, seed: int = 0) -> float:
    """How often chance alone gives a mean as far from 0 as that of *differences*; 1 where nothing differs.

    Pairs that do not differ say nothing either way and are left out. With five or fewer others no result is below
    0.05, which is right: so few cannot show a difference.
    """
    values = np.asarray([value for value in differences if value], np.float64)
    if not len(values):
        return 1.0
    found = abs(values.sum()) * (1 - _ROUNDING)
    if len(values) <= _MAX_EXACT:
        places = np.arange(2 ** len(values))
        signs = 1 - 2 * ((places[:, None] >> np.arange(len(values))) & 1)
        return float((np.abs(signs @ values) >= found).mean())
    generator = np.random.default_rng(seed)
    num_far = 0
    for _ in range(NUM_FLIPS // 100):
        signs = 1 - 2 * generator.integers(0, 2, (100, len(values)))
        num_far += int((np.abs(signs @ values) >= found).sum())
    return (num_far + 1) / (NUM_FLIPS + 1)  # what was seen is one of the draws
