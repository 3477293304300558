"""The limits of the classes. Where the specification gives a figure it is used; the others are ours, with the reason.

A change that the specification calls lossless is held to zero, so it needs no limit here.
"""

import torch

# The chance of a false alarm in each test of a law: a gate of a dozen tests must not cry wolf once a month.
MIN_P_VALUE = 1e-4

# Rounding: logits in float32 (optimisation specification, 5.2: at most 0.01, all best tokens equal). In bfloat16 one
# unit in the last place of a logit of 4 is 0.03 already, and the best two of a flat distribution may change places.
_MAX_LOGIT_DIFFERENCE = {torch.float32: 0.01}
MAX_LOGIT_DIFFERENCE_16_BIT = 0.25
_MIN_AGREEMENT = {torch.float32: 1.0}
MIN_AGREEMENT_16_BIT = 0.95
# Rounding of samples: what an excitation phase amplifies most, 60 dB below full scale, and inaudible on the mel.
MAX_ROUNDED_LOG_MEL = 0.02
MAX_ROUNDED_STFT = 0.05

# Bounded changes, against ten float32 steps on fixed codes and noise. 0.1 of a natural logarithm is 0.9 dB, about the
# least difference in level that a listener hears.
MAX_LOG_MEL = 0.1
MAX_STFT = 0.25
MAX_CLICK_RATIO = 3.0


def max_logit_difference(dtype: torch.dtype) -> float:
    return _MAX_LOGIT_DIFFERENCE.get(dtype, MAX_LOGIT_DIFFERENCE_16_BIT)


def max_row_difference(dtype: torch.dtype) -> float:
    """Of an encoder's rows, relative to the largest number in them."""
    return 1e-4 if dtype is torch.float32 else 0.05


def min_agreement(dtype: torch.dtype) -> float:
    return _MIN_AGREEMENT.get(dtype, MIN_AGREEMENT_16_BIT)
