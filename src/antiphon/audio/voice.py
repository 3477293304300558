"""What a reference voice is to the vocoder, as numbers."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class VoiceFeatures:
    """The three features of one reference recording. Invariant: two mel frames for each codec id."""

    codes: NDArray[np.int64]  # [Np] S3 codec ids, 25 Hz
    xvector: NDArray[np.float32]  # [192] speaker vector
    mel: NDArray[np.float32]  # [2 · Np, 80] natural-log mel, 50 Hz, of the recording at 24 kHz
