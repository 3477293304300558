import pytest

from antiphon.core.outputs import FinishReason, RequestMetrics


def metrics(audio_duration_s: float) -> RequestMetrics:
    return RequestMetrics(
        num_prompt_tokens=3,
        num_text_tokens=2,
        num_codec_frames=25,
        audio_duration_s=audio_duration_s,
        time_to_first_text_s=0.1,
        text_finished_s=0.2,
        time_to_first_audio_s=0.4,
        total_s=0.5,
    )


def test_rtf_is_time_divided_by_audio() -> None:
    assert metrics(1.0).rtf == pytest.approx(0.5)


def test_there_is_no_rtf_without_audio() -> None:
    assert metrics(0.0).rtf is None


def test_finish_reasons_are_the_protocol_s_words() -> None:
    assert [reason.value for reason in FinishReason] == ["stop", "length"]
