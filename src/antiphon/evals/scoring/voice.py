"""How alike the voice of an output and the reference voice are."""

from antiphon.core.errors import ConfigError, MediaError
from antiphon.evals.items import Output
from antiphon.evals.metrics import VOICE
from antiphon.evals.scorers.protocols import ScorerName, SpeakerEncoder, similarity
from antiphon.evals.scoring.cache import ScoreCache
from antiphon.evals.scoring.scored import Marks
from antiphon.evals.speech.sound import read_sound

MIN_S = 0.25  # shorter sounds have no voice to speak of


class VoicePart:
    """Cosine similarity under one encoder."""

    name = VOICE

    def __init__(self, encoder: SpeakerEncoder, cache: ScoreCache) -> None:
        self._encoder = encoder
        self._cache = cache

    @property
    def scorer(self) -> ScorerName:
        return self._encoder.scorer

    def score(self, output: Output) -> Marks:
        sound, reference = output.sound, output.truth.reference
        if reference is None:
            raise ConfigError("it has no reference, the recording of the voice that was to speak")
        if sound is None:
            raise MediaError("it has no sound")

        def measure() -> float:
            sounds = [read_sound(path) for path in (sound, reference)]
            for path, heard in zip((sound, reference), sounds, strict=True):
                if heard.duration_s < MIN_S:
                    raise MediaError(f"{path}: is {heard.duration_s:.2f} s long; a voice needs {MIN_S} s")
            first, second = (self._encoder.encode(heard) for heard in sounds)
            return similarity(first, second)

        return Marks({"sim": self._cache.get(float, self._encoder.scorer, "", [sound, reference], measure)})
