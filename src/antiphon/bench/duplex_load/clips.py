"""What the sessions hear: recordings of a folder, made-up speech, or silence behind a text that is to be spoken."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from antiphon.audio.decode import load_audio
from antiphon.audio.wav import to_pcm16
from antiphon.bench.bench_request import BenchRequest
from antiphon.bench.duplex_load.settings import RATE_HZ
from antiphon.core.errors import ConfigError

_ENDINGS = (".wav", ".flac", ".mp3", ".ogg", ".opus", ".m4a", ".aiff")
_MAX_CLIP_S = 3600.0
TEXT_INPUT_S = 30.0


@dataclass(frozen=True, kw_only=True)
class Clip:
    """One session's input: PCM16 at 16 kHz, and what its session object has besides.

    `ends_with_answer`: the session is over with its first answer, not with its input.
    """

    pcm: bytes
    session: Mapping[str, object] = field(default_factory=dict)
    ends_with_answer: bool = False

    @property
    def duration_s(self) -> float:
        return len(self.pcm) / 2 / RATE_HZ


Clips = Callable[[int, int], Sequence[Clip]]


@dataclass(frozen=True, kw_only=True)
class MadeSpeech:
    """Phrases and pauses by turns, seconds each, for *session_s* in all."""

    session_s: float = 30.0
    talk_s: float = 2.0
    pause_s: float = 3.0

    def __post_init__(self) -> None:
        if min(self.session_s, self.talk_s) <= 0 or self.pause_s < 0 or self.session_s > _MAX_CLIP_S:
            raise ConfigError("--duplex-session-s and --duplex-talk-s are above 0, --duplex-pause-s from 0, in seconds")


def make_clips(options: MadeSpeech, seed: int) -> Clips:
    """Clips that differ from session to session and from level to level; the same seed gives the same ones."""

    def make(count: int, place: int) -> list[Clip]:
        generator = np.random.default_rng((seed, place, 2))
        return [Clip(pcm=to_pcm16(_speech(options, generator)).tobytes()) for _ in range(count)]

    return make


def read_clips(folder: Path, session_s: float, seed: int, *, is_shuffled: bool) -> Clips:
    """The recordings of *folder*, each repeated with a second between until it fills *session_s*.

    Raises:
        ConfigError: the folder holds none.
        MediaError: one cannot be read.
    """
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in _ENDINGS)
    if not paths:
        raise ConfigError(f"{folder}: holds no sound files ({', '.join(_ENDINGS)})")
    sounds = [load_audio(path, max_s=_MAX_CLIP_S) for path in paths]

    def choose(count: int, place: int) -> list[Clip]:
        order = np.random.default_rng((seed, place, 2)).permutation(len(sounds)) if is_shuffled else None
        picks = [int(order[i % len(sounds)]) if order is not None else i % len(sounds) for i in range(count)]
        return [Clip(pcm=_filled(sounds[pick], session_s)) for pick in picks]

    return choose


def spoken_texts(requests: Callable[[int, int], Sequence[BenchRequest]]) -> Clips:
    """Sessions that are given a text to speak, and silence until they have."""
    silence = bytes(2 * round(TEXT_INPUT_S * RATE_HZ))

    def make(count: int, place: int) -> list[Clip]:
        return [
            Clip(pcm=silence, session=_text_session(request), ends_with_answer=True)
            for request in requests(count, place)
        ]

    return make


def _text_session(request: BenchRequest) -> dict[str, object]:
    session: dict[str, object] = {"extra_body": {"duplex_initial_user_text": request.speech_text}}
    reference = request.fields.get("ref_audio")
    return {**session, "ref_audio": reference} if reference is not None else session


def _filled(sound: NDArray[np.float32], session_s: float) -> bytes:
    """Whole seconds, so that the last unit is complete."""
    length = max(1, round(session_s)) * RATE_HZ
    once = np.concatenate([sound, np.zeros(RATE_HZ, np.float32)])
    return to_pcm16(np.resize(once, length)).tobytes()


def _speech(options: MadeSpeech, generator: np.random.Generator) -> NDArray[np.float32]:
    """A buzz with the pitch, syllables and loudness of speech; loud enough for any detector, silent in the pauses."""
    length = max(1, round(options.session_s)) * RATE_HZ
    time_s = np.arange(length) / RATE_HZ
    pitch_hz = generator.uniform(100, 220) * (1 + 0.08 * np.sin(2 * np.pi * generator.uniform(0.2, 0.5) * time_s))
    phase = 2 * np.pi * np.cumsum(pitch_hz) / RATE_HZ
    voice = sum(np.sin(number * phase) / number for number in range(1, 12))
    syllables = 0.55 + 0.45 * np.sin(2 * np.pi * generator.uniform(3.5, 5.0) * time_s)
    period_s = options.talk_s + options.pause_s
    talks = (time_s % period_s) < options.talk_s
    found: NDArray[np.float32] = (0.12 * voice * syllables * talks).astype(np.float32)
    return found
