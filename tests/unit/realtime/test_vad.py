import numpy as np
import pytest

from antiphon.realtime.script import tone
from antiphon.realtime.speech_verdict import is_speech
from antiphon.realtime.vad import Detector, LoudnessScorer
from antiphon.wire.realtime.client_events import InputAudioAppend, VadHint
from antiphon.wire.realtime.turn_detection import ServerVad

QUIET = np.zeros(16_000, np.float32)


def detector(**settings) -> Detector:
    return Detector(LoudnessScorer(), ServerVad(**settings))


def test_speech_starts_with_padding_and_stops_after_silence():
    found = detector(prefix_padding_ms=300)
    stream = np.concatenate((QUIET, tone(1000, 16_000), QUIET))
    edges = [edge for piece in np.array_split(stream, 13) for edge in found.push(piece)]
    assert [edge.is_start for edge in edges] == [True, False]
    assert abs(edges[0].position - (16_000 - 4800)) <= 512
    assert abs(edges[1].position - 32_000) <= 512


def test_a_click_starts_nothing():
    assert detector(min_speech_duration_ms=96).push(np.concatenate((tone(60, 16_000), QUIET))) == []


def test_a_short_gap_stops_nothing():
    stream = np.concatenate((tone(500, 16_000), QUIET[:3200], tone(500, 16_000)))
    assert [edge.is_start for edge in detector().push(stream)] == [True]


def test_a_reset_forgets_the_utterance():
    found = detector()
    found.push(tone(500, 16_000))
    assert found.is_speaking
    found.reset(100)
    assert not found.is_speaking


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (InputAudioAppend(is_speech=False, vad=VadHint(is_speech=True)), False),
        (InputAudioAppend(vad=VadHint(is_speech=False, probability=0.9)), False),
        (InputAudioAppend(vad=VadHint(probability=0.5), speech_probability=0.1), True),
        (InputAudioAppend(speech_probability=0.49), False),
        (InputAudioAppend(overlap_silence_rms=0.9), False),
        (InputAudioAppend(vad=VadHint(silence_rms=0.9)), False),
        (InputAudioAppend(), True),
    ],
)
def test_the_first_hint_decides_about_speech(event, expected):
    assert is_speech(event, tone(100, 16_000), 0.003) is expected
