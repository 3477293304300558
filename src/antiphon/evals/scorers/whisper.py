"""Whisper through faster-whisper, from weights that a package ships or that lie in a folder. Needs `[eval]`."""

import hashlib
from importlib import metadata
from pathlib import Path

from faster_whisper import WhisperModel

from antiphon.core.errors import ConfigError
from antiphon.evals.scorers.protocols import ScorerName
from antiphon.evals.speech.sound import Sound

_RATE_HZ = 16_000
_MODEL_FILE = "model.bin"
_BEAMS = 5
# Whisper writes Chinese in either script; a sentence in simplified characters in front of it settles which.
_PROMPTS = {"zh": "以下是普通话的句子。"}


class WhisperRecogniser:
    """Greedy in nothing but temperature: beam search, no fallback to sampling, so a recording has one transcript.

    Args:
        folder: a Whisper model as CTranslate2 reads it.
        name: what reports call it.
        version: of the package that shipped the weights; empty: a digest of the weights stands in its place.
    """

    def __init__(
        self, folder: Path, *, name: str, version: str = "", device: str = "cpu", num_threads: int = 0
    ) -> None:
        if not (folder / _MODEL_FILE).is_file():
            raise ConfigError(f"--recogniser {folder}: holds no {_MODEL_FILE}; give a Whisper folder of CTranslate2")
        self.compute_type = "float16" if device == "cuda" else "int8"
        self._model = WhisperModel(str(folder), device=device, compute_type=self.compute_type, cpu_threads=num_threads)
        self._scorer = ScorerName(
            name,
            version or _digest(folder / _MODEL_FILE),
            {
                "engine": f"faster-whisper {metadata.version('faster-whisper')}",
                "beams": str(_BEAMS),
                "compute": self.compute_type,
            },
        )

    @property
    def scorer(self) -> ScorerName:
        return self._scorer

    def transcribe(self, sound: Sound, language: str) -> str:
        if language != "en" and not self._model.model.is_multilingual:
            raise ConfigError(f"{self._scorer.name} knows English only; take another --recogniser for {language!r}")
        segments, _ = self._model.transcribe(
            sound.at_rate(_RATE_HZ),
            language=language,
            beam_size=_BEAMS,
            temperature=0.0,
            condition_on_previous_text=False,
            initial_prompt=_PROMPTS.get(language),
            without_timestamps=True,
        )
        return " ".join(segment.text.strip() for segment in segments)


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return f"sha256:{digest.hexdigest()[:16]}"
