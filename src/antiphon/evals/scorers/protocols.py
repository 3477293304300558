"""What a scorer must be able to do, and how it is named in reports: scales differ from one to the next."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from antiphon.evals.speech.sound import Sound


@dataclass(frozen=True)
class ScorerName:
    """Two scores may be compared only if these are equal. `settings` are those that change a score."""

    name: str
    version: str
    settings: Mapping[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, object]:
        return {"name": self.name, "version": self.version, "settings": dict(self.settings)}

    @property
    def text(self) -> str:
        settings = ", ".join(f"{key} {value}" for key, value in self.settings.items())
        return f"{self.name} {self.version}" + (f" ({settings})" if settings else "")


class Recogniser(Protocol):
    """Writes down what it hears."""

    @property
    def scorer(self) -> ScorerName: ...

    def transcribe(self, sound: Sound, language: str) -> str:
        """The words of *sound*; *language* is en or zh. Raises ConfigError for one that it does not know."""


class SpeakerEncoder(Protocol):
    """Turns a voice into a direction: two recordings of one speaker point the same way."""

    @property
    def scorer(self) -> ScorerName: ...

    def encode(self, sound: Sound) -> NDArray[np.float32]:
        """A vector of any length, [E] float32."""


def similarity(first: NDArray[np.float32], second: NDArray[np.float32]) -> float:
    """Cosine of the angle between two encodings."""
    return float(first @ second / max(float(np.linalg.norm(first) * np.linalg.norm(second)), 1e-12))
