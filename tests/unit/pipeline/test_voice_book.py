from pathlib import Path

import numpy as np
import pytest

from antiphon.audio.voice import VoiceFeatures
from antiphon.pipeline import voice_book
from antiphon.pipeline.eager.voices import VoiceSource
from antiphon.pipeline.omni_model import OmniModel
from antiphon.pipeline.voice_book import VoiceBook, prepared


def features(value: float) -> VoiceFeatures:
    return VoiceFeatures(np.zeros(2, np.int64), np.full(3, value, np.float32), np.zeros((4, 5), np.float32))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[VoiceSource | None]:
    """What the front end was given, in order; each call gives other features."""
    calls: list[VoiceSource | None] = []

    def prepare(model: OmniModel, source: VoiceSource | None) -> VoiceFeatures:
        calls.append(source)
        return features(len(calls))

    monkeypatch.setattr(voice_book, "prepare_voice_features", prepare)
    return calls


def book(**fields: object) -> VoiceBook:
    return VoiceBook(None, **fields)  # type: ignore[arg-type]


def recording(value: float, count: int = 100) -> tuple[np.ndarray, int]:
    return (np.full((1, count), value, np.float32), 100)


def test_equal_features_have_equal_keys() -> None:
    assert prepared(features(1.0)).key == prepared(features(1.0)).key != prepared(features(2.0)).key


def test_a_recording_is_prepared_once(made: list[object]) -> None:
    voices = book()
    first = voices.prepare(recording(1.0))
    assert voices.prepare(recording(1.0)) is first
    assert voices.prepare(b"file").key != first.key
    assert len(made) == 2


def test_rate_and_samples_tell_recordings_apart(made: list[object]) -> None:
    voices = book()
    samples, _ = recording(1.0)
    for source in ((samples, 100), (samples, 200), (samples + 1, 100)):
        voices.prepare(source)
    assert len(made) == 3


def test_the_voice_used_least_recently_is_dropped(made: list[object]) -> None:
    voices = book(max_voices=2)
    for value in (1.0, 2.0, 1.0, 3.0, 1.0, 2.0):
        voices.prepare(recording(value))
    assert len(made) == 4


def test_the_default_voice_is_kept_and_may_be_another_file(made: list[object]) -> None:
    voices = book(default="own.wav", max_voices=1)
    voices.prepare(None)
    for value in (1.0, 2.0):
        voices.prepare(recording(value))
    voices.prepare(None)
    assert made[0] == "own.wav"
    assert len(made) == 3


def test_a_file_is_read_anew_because_it_may_have_changed(made: list[object]) -> None:
    voices = book()
    voices.prepare(Path("a.wav"))
    voices.prepare(Path("a.wav"))
    assert len(made) == 2


def test_long_recordings_are_cut(made: list[VoiceSource | None]) -> None:
    book(max_seconds=0.5).prepare(recording(1.0))
    (source,) = made
    assert isinstance(source, tuple)
    assert source[0].shape == (1, 50)
