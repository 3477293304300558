"""The vocoder for a batch of streams: held mel, excitation and samples in slots, noise from counters.

The twin of `vocode_chunk` (model specification, section 4.7). Convolutions look both ways, so a chunk is never padded:
each width is a shape of its own, and a batch holds streams of one width.
"""

import torch
from torch import Tensor

from antiphon.layers.speech_shapes import VocoderShape
from antiphon.models.code2wav.config import SAMPLES_PER_FRAME
from antiphon.models.code2wav.counter_source import counter_source_noise
from antiphon.models.code2wav.hift import HiFT
from antiphon.models.code2wav.hift_stream import HELD_FRAMES, HELD_SAMPLES, cross_fade

NUM_FIELDS = 4  # of an input row: place in the flow's output, slot, seed, first source sample


def num_samples(shape: VocoderShape) -> int:
    """Samples made of one chunk, the held ones at either end included."""
    return (shape.num_frames + (HELD_FRAMES if shape.has_past else 0)) * SAMPLES_PER_FRAME


class BatchedVocoder:
    """Vocodes chunks of streams; the row after the last slot is scratch.

    Args:
        max_frames: most new mel frames of a chunk.
    """

    def __init__(self, hift: HiFT, num_slots: int, max_batch: int, max_frames: int) -> None:
        weight = hift.conv_pre.weight
        rows, num_mel_bins = num_slots + 1, hift.config.num_mel_bins
        self.hift = hift
        self.scratch = num_slots
        self.mel_past = weight.new_zeros(rows, num_mel_bins, HELD_FRAMES)
        self.source_past = weight.new_zeros(rows, 1, HELD_SAMPLES)
        self.speech_past = weight.new_zeros(rows, HELD_SAMPLES)
        self.inputs = torch.zeros(max_batch, NUM_FIELDS, dtype=torch.int64, device=weight.device)
        self.mel = weight.new_zeros(max_batch, num_mel_bins, max_frames)  # the flow's output
        self.max_samples = num_samples(VocoderShape(max_frames, has_past=True))
        self.samples = weight.new_zeros(max_batch * self.max_samples)

    def run(self, shape: VocoderShape, batch: int) -> None:
        """Vocode the first *batch* input rows into `output(shape, batch)`."""
        row, slot, seed, start = self.inputs[:batch].unbind(1)
        mel = self.mel[row][:, :, : shape.num_frames]
        head = None
        if shape.has_past:
            mel = torch.cat((self.mel_past[slot], mel), dim=2)
            head = self.source_past[slot]
        noise = counter_source_noise(seed, start, num_samples(shape), self.hift.config.num_harmonics)
        speech, source = self.hift(mel, noise, head)
        if shape.has_past:
            speech = cross_fade(speech, self.speech_past[slot])
        self.output(shape, batch).copy_(speech)
        # A turn of fewer frames than are held has no next chunk.
        if mel.shape[2] >= HELD_FRAMES:
            self.mel_past.index_copy_(0, slot, mel[:, :, -HELD_FRAMES:])
            self.source_past.index_copy_(0, slot, source[:, :, -HELD_SAMPLES:])
            self.speech_past.index_copy_(0, slot, speech[:, -HELD_SAMPLES:])

    def output(self, shape: VocoderShape, batch: int) -> Tensor:
        """Where `run` leaves samples: [batch, num_samples(shape)], until the next run."""
        size = num_samples(shape)
        return self.samples[: batch * size].view(batch, size)
