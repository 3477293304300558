"""The vocoder chunk by chunk: held samples, continued excitation, cross-fade.

Model specification, section 4.7 ("Streaming"). Each chunk is vocoded with the 8 mel frames before it; what they say is
faded from the previous chunk's version into this chunk's.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.core.errors import CapacityError
from antiphon.models.code2wav.config import SAMPLES_PER_FRAME
from antiphon.models.code2wav.hift import HiFT, num_samples
from antiphon.models.code2wav.hift_source import SourceNoise

HELD_FRAMES = 8
HELD_SAMPLES = HELD_FRAMES * SAMPLES_PER_FRAME  # 3,840: 160 ms


@dataclass(frozen=True)
class HiFTState:
    """What the vocoder remembers of one stream; all empty before the first chunk. Never changed."""

    mel: Tensor  # [1, mel, 8 or 0]
    source: Tensor  # [1, 1, 3840 or 0]
    speech: Tensor  # [1, 3840 or 0] samples held back

    def clone(self) -> "HiFTState":
        return HiFTState(self.mel.clone(), self.source.clone(), self.speech.clone())


def empty_state(hift: HiFT) -> HiFTState:
    new = hift.conv_pre.weight.new_empty
    return HiFTState(new(1, hift.config.num_mel_bins, 0), new(1, 1, 0), new(1, 0))


def cross_fade(new: Tensor, old: Tensor) -> Tensor:
    """Fade the first samples of *new* [1, N] in over *old* [1, n], n ≤ N.

    The halves of a Hamming window add up to about 1.08, so the overlap is 0.67 dB loud; kept, as the reference has it.
    The window is float64 there, and so is the fade.
    """
    num_faded = old.shape[1]
    window = torch.hamming_window(2 * num_faded, periodic=False, dtype=torch.float64, device=new.device)
    faded = new[:, :num_faded] * window[:num_faded] + old * window[num_faded:]
    return torch.cat((faded.to(new.dtype), new[:, num_faded:]), dim=1)


def vocode_chunk(
    hift: HiFT, mel: Tensor, state: HiFTState, noise: SourceNoise, *, is_last: bool
) -> tuple[Tensor, HiFTState]:
    """Samples of the next chunk.

    Args:
        mel: [1, mel, M]; the first chunk of a turn must have 8 frames or more unless it is the last, too.
        state: of the stream; not changed.
        is_last: emit the held samples too.

    Returns:
        Samples [1, 480 · M] (3,840 fewer in the first chunk; 3,840 more in the last), float32, and the new state.
        Cross-faded samples may pass ±1 slightly.
    """
    mel = torch.cat((state.mel, mel.float()), dim=2)
    if not is_last and mel.shape[2] < HELD_FRAMES:
        raise CapacityError(
            f"code2wav: a first chunk of {mel.shape[2]} mel frames cannot be followed by another; "
            f"give it at least {HELD_FRAMES}"
        )
    drawn = noise.draw(num_samples(mel), hift.config.num_harmonics, mel.device)
    # The phase of the excitation restarts with every chunk; continuity comes from repeating the held samples.
    speech, source = hift(mel, drawn, state.source)
    speech = cross_fade(speech, state.speech)
    kept = HiFTState(mel[:, :, -HELD_FRAMES:], source[:, :, -HELD_SAMPLES:], speech[:, -HELD_SAMPLES:]).clone()
    return (speech if is_last else speech[:, :-HELD_SAMPLES]), kept
