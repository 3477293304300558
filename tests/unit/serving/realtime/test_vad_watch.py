import numpy as np
import pytest
from numpy.typing import NDArray

from antiphon.core.errors import ConfigError
from antiphon.realtime.vad import FRAME_SAMPLES, Detector, FrameScorer, LoudnessScorer
from antiphon.serving.realtime.vad_watch import VadWatch
from antiphon.telemetry.families import Families
from antiphon.wire.realtime.turn_detection import ServerVad


class Broken:
    def score(self, frame: NDArray[np.float32]) -> float:
        raise ConfigError("broken")

    def reset(self) -> None:
        pass


def missing() -> FrameScorer:
    raise ConfigError("no file")


def page(watch: VadWatch) -> str:
    families = Families("m")
    watch.move_to(families)
    return families.render().decode()


def test_each_score_and_each_end_of_speech_is_noted_once() -> None:
    times = iter(range(100))
    watch = VadWatch(clock=lambda: float(next(times)))
    scorer = watch.watched(LoudnessScorer)()
    scorer.score(np.ones(FRAME_SAMPLES, np.float32))
    scorer.score(np.zeros(FRAME_SAMPLES, np.float32))
    watch.end_found(0.5)
    text = page(watch)
    assert 'realtime_vad_inference_latency_s_count{model_name="m"} 2.0' in text
    assert 'realtime_vad_inference_latency_s_sum{model_name="m"} 2.0' in text
    assert 'realtime_vad_endpoint_delay_s_sum{model_name="m"} 0.5' in text
    assert 'realtime_vad_inference_latency_s_count{model_name="m"}' not in page(watch)


def test_detectors_that_cannot_be_made_or_fail_are_counted() -> None:
    watch = VadWatch()
    with pytest.raises(ConfigError):
        watch.watched(missing)()
    with pytest.raises(ConfigError):
        watch.watched(Broken)().score(np.zeros(FRAME_SAMPLES, np.float32))
    assert 'realtime_vad_errors_total{model_name="m"} 2.0' in page(watch)


def test_an_end_of_speech_says_how_much_silence_it_took() -> None:
    detector = Detector(LoudnessScorer(), ServerVad(silence_duration_ms=320, min_speech_duration_ms=64))
    loud, quiet = np.full(16_000, 0.5, np.float32), np.zeros(16_000, np.float32)
    edges = [*detector.push(loud), *detector.push(quiet)]
    assert [edge.is_start for edge in edges] == [True, False]
    assert edges[1].delay_s == pytest.approx(0.32)
