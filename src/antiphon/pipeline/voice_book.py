"""Reference voices made ready once and kept: from a recording to features with a key."""

import threading
from collections import OrderedDict
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from antiphon.audio.voice import VoiceFeatures
from antiphon.pipeline.eager.voices import VoiceSource, prepare_voice_features
from antiphon.pipeline.omni_model import OmniModel


@dataclass(frozen=True)
class PreparedVoice:
    """Features of one voice; equal features have equal keys."""

    key: str
    features: VoiceFeatures


def prepared(features: VoiceFeatures) -> PreparedVoice:
    """*features* with their key."""
    digest = blake2b(digest_size=16)
    for array in (features.codes, features.xvector, features.mel):
        digest.update(repr((array.dtype.str, array.shape)).encode())
        digest.update(np.ascontiguousarray(array).data)
    return PreparedVoice(digest.hexdigest(), features)


class VoiceBook:
    """Prepares voices, on the caller's thread, and keeps the latest. The default voice is always kept.

    Args:
        model: names the front ends and the default voice.
        default: file of another default voice; None: the checkpoint's.
        max_seconds: longer recordings are cut; None: they are used whole.
        max_voices: how many others are kept; 0 keeps none.
    """

    def __init__(
        self,
        model: OmniModel,
        *,
        default: str | None = None,
        max_seconds: float | None = None,
        max_voices: int = 64,
    ) -> None:
        self._model = model
        self._default_source = default
        self._max_seconds = max_seconds
        self._max_voices = max_voices
        self._default: PreparedVoice | None = None
        self._voices: OrderedDict[bytes, PreparedVoice] = OrderedDict()
        self._lock = threading.Lock()  # one at a time: the front ends use every core they get

    def prepare(self, source: VoiceSource | None) -> PreparedVoice:
        """The voice of *source*; None is the checkpoint's own. Raises as `prepare_voice_features`."""
        with self._lock:
            if source is None:
                if self._default is None:
                    self._default = prepared(prepare_voice_features(self._model, self._default_source))
                return self._default
            source = self._cut(source)
            key = _source_digest(source)
            voice = self._voices.pop(key, None) if key else None
            if voice is None:
                voice = prepared(prepare_voice_features(self._model, source))
            if key:
                self._voices[key] = voice
                while len(self._voices) > self._max_voices:
                    self._voices.popitem(last=False)
            return voice

    def _cut(self, source: VoiceSource) -> VoiceSource:
        if self._max_seconds is None or not isinstance(source, tuple):
            return source
        samples, rate_hz = source
        return (samples[..., : int(self._max_seconds * rate_hz)], rate_hz)


def _source_digest(source: VoiceSource) -> bytes:
    """Digest of the recording; empty for a file, which may change behind its name."""
    if isinstance(source, bytes):
        return blake2b(source, digest_size=16, person=b"file").digest()
    if isinstance(source, tuple):
        samples, rate_hz = source
        digest = blake2b(repr((samples.dtype.str, samples.shape, rate_hz)).encode(), digest_size=16, person=b"samples")
        digest.update(np.ascontiguousarray(samples).data)
        return digest.digest()
    return b""
