"""Which voice a reply is spoken in: a given recording, the checkpoint's own, or a made-up one without a checkpoint."""

import numpy as np

from antiphon.audio.source import MediaSource
from antiphon.audio.voice import VoiceFeatures
from antiphon.audio.voice_features import FRAMES_PER_CODE, VoiceFrontEnd
from antiphon.core.errors import MediaError
from antiphon.engine.code_buffer import SILENCE_ID
from antiphon.models.code2wav.code2wav import Code2Wav
from antiphon.pipeline.omni_model import OmniModel

FRONT_END_FOLDER = "assets/token2wav"
DEFAULT_VOICE = "assets/HT_ref_audio.wav"
_PLACEHOLDER_CODES = 50  # 2 s
_SILENT_MEL = float(np.log(1e-5))

VoiceSource = MediaSource | tuple[np.ndarray, int]  # a file, its bytes, or samples [N] or [channels, N] and their rate


def prepare_voice_features(model: OmniModel, source: VoiceSource | None) -> VoiceFeatures:
    """Features of *source*; None is the checkpoint's default voice.

    A voice that was asked for is never replaced by another one: whatever is wrong with it is an error.

    Raises:
        MediaError: the recording cannot be used, or the model has no files (`--load-format dummy`) to prepare it with.
    """
    assert model.code2wav is not None
    if model.folder is None:
        if source is not None:
            raise MediaError(
                "reference voice: a model without files (load format dummy) cannot prepare one; leave it out"
            )
        return _placeholder_voice(model.code2wav)
    front_end = VoiceFrontEnd(model.folder / FRONT_END_FOLDER)
    return front_end.prepare(model.folder / DEFAULT_VOICE if source is None else source)


def _placeholder_voice(code2wav: Code2Wav) -> VoiceFeatures:
    """Silence of 2 s: shapes are right, which is all that random weights need."""
    config = code2wav.flow.config
    return VoiceFeatures(
        codes=np.full(_PLACEHOLDER_CODES, SILENCE_ID, np.int64),
        xvector=np.ones(config.speaker_size, np.float32),
        mel=np.full((_PLACEHOLDER_CODES * FRAMES_PER_CODE, config.num_mel_bins), _SILENT_MEL, np.float32),
    )
