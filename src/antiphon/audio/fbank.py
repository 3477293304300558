"""Kaldi filter-bank features, the speaker encoder's input."""

import kaldi_native_fbank as knf
import numpy as np
from numpy.typing import NDArray

NUM_BINS = 80


def centred_fbank(samples: NDArray[np.float32], sample_rate_hz: int) -> NDArray[np.float32]:
    """`fbank` minus its mean over time."""
    features = fbank(samples, sample_rate_hz)
    return np.asarray(features - features.mean(axis=0, keepdims=True), dtype=np.float32)


def fbank(samples: NDArray[np.float32], sample_rate_hz: int) -> NDArray[np.float32]:
    """Log filter banks of mono *samples* [N] in [−1, 1]: one row of 80 for each 25 ms window that fits, every 10 ms.

    Kaldi's defaults (povey window, pre-emphasis 0.97, 20 Hz to Nyquist on the HTK scale) but for the dither: it would
    make the speaker vector random. Samples are not scaled to 16 bits, as the reference does not scale them either.
    """
    options = knf.FbankOptions()
    options.frame_opts.samp_freq = float(sample_rate_hz)
    options.frame_opts.dither = 0.0
    options.mel_opts.num_bins = NUM_BINS
    computer = knf.OnlineFbank(options)
    computer.accept_waveform(float(sample_rate_hz), samples.tolist())
    computer.input_finished()
    rows = [computer.get_frame(index) for index in range(computer.num_frames_ready)]
    return np.asarray(rows, dtype=np.float32).reshape(len(rows), NUM_BINS)
