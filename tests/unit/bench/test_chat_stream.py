"""Streamed chat completions to timelines, with scripted times."""

import base64
import io
import json
import wave

import pytest

from antiphon.bench.chat_stream import ChatStream
from antiphon.bench.timeline import Answer, AudioArrival, TextArrival, Usage


def wav(num_frames: int, rate_hz: int = 24_000) -> str:
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(rate_hz)
        writer.writeframes(bytes(2 * num_frames))
    return base64.b64encode(file.getvalue()).decode()


def read(*events: tuple[float, object]) -> Answer:
    """The answer made of *events*: (seconds after the request, chunk); a text is sent as it is."""
    stream = ChatStream()
    for at_s, chunk in events:
        payload = chunk if isinstance(chunk, str) else json.dumps(chunk)
        stream.feed(f"data: {payload}\n\n".encode(), at_s)
    return stream.close()


def text(content: str, tokens: int | None = None, **more: object) -> dict[str, object]:
    found: dict[str, object] = {"modality": "text", "choices": [{"index": 0, "delta": {"content": content}, **more}]}
    return found if tokens is None else {**found, "usage": {"prompt_tokens": 5, "completion_tokens": tokens}}


def audio(data: str, **more: object) -> dict[str, object]:
    return {"modality": "audio", "choices": [{"index": 0, "delta": {"content": data}, **more}]}


def test_tokens_are_the_rise_of_the_usage_and_the_role_has_none() -> None:
    answer = read((0.1, text("", 0)), (0.2, text("a", 1)), (0.5, text("bcd", 4)), (0.6, "[DONE]"))
    assert answer.texts == (
        TextArrival(at_s=0.2, num_tokens=1, text="a"),
        TextArrival(at_s=0.5, num_tokens=3, text="bcd"),
    )
    assert answer.usage == Usage(prompt_tokens=5, completion_tokens=4)
    assert (answer.e2e_s, answer.error, answer.text) == (0.5, None, "abcd")


def test_without_usage_token_ids_count_and_else_an_event_is_one_token() -> None:
    answer = read((0.1, text("", None)), (0.2, text("ab", token_ids=[7, 8])), (0.3, text("c")), (0.4, "[DONE]"))
    assert [arrival.num_tokens for arrival in answer.texts] == [2, 1]
    assert answer.usage is None


def test_a_final_usage_alone_does_not_place_tokens() -> None:
    end = {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 30}}
    answer = read((0.1, text("whole text")), (0.4, end), (0.5, "[DONE]"))
    assert [arrival.num_tokens for arrival in answer.texts] == [1]
    assert answer.usage == Usage(prompt_tokens=9, completion_tokens=30)
    assert answer.e2e_s == 0.4


def test_audio_by_modality_is_sound_and_an_empty_one_is_an_event() -> None:
    answer = read((0.1, audio("")), (0.2, audio(wav(480))), (0.3, text("", 0, finish_reason="stop")))
    assert answer.audios == (
        AudioArrival(at_s=0.1, num_frames=0, sample_rate_hz=24_000),
        AudioArrival(at_s=0.2, num_frames=480, sample_rate_hz=24_000),
    )
    assert answer.texts == ()
    assert answer.finish_reason == "stop"


def test_openai_audio_is_pcm_and_its_transcript_is_text() -> None:
    pcm = base64.b64encode(bytes(960)).decode()
    first = {"choices": [{"delta": {"audio": {"transcript": "Hi"}}}]}
    second = {"choices": [{"delta": {"audio": {"data": pcm}}}]}
    answer = read((0.1, first), (0.2, second), (0.3, "[DONE]"))
    assert answer.texts == (TextArrival(at_s=0.1, num_tokens=1, text="Hi"),)
    assert answer.audios == (AudioArrival(at_s=0.2, num_frames=480, sample_rate_hz=24_000),)


def test_openai_audio_beside_a_modality_is_read_and_the_end_is_no_audio_event() -> None:
    pcm = base64.b64encode(bytes(960)).decode()
    sound = {"modality": "audio", "choices": [{"delta": {"audio": {"data": pcm}}}]}
    end = {"modality": "audio", "choices": [{"delta": {}, "finish_reason": "stop"}]}
    answer = read((0.1, sound), (0.2, end))
    assert [(arrival.at_s, arrival.num_frames) for arrival in answer.audios] == [(0.1, 480)]
    assert answer.finish_reason == "stop"


def test_pcm_has_the_rate_that_the_server_states() -> None:
    pcm = base64.b64encode(bytes(960)).decode()
    answer = read((0.1, audio(pcm, audio_metadata={"sample_rate_hz": 16_000})), (0.2, "[DONE]"))
    assert answer.audios[0].duration_s == 0.03


def test_a_chunk_of_another_format_is_dropped_and_counted() -> None:
    answer = read((0.1, audio(wav(480))), (0.2, audio(wav(480, 16_000))), (0.3, audio(wav(240))), (0.4, "[DONE]"))
    assert [arrival.num_frames for arrival in answer.audios] == [480, 240]
    assert answer.num_dropped_audio == 1


def test_stage_metrics_of_all_chunks_are_joined() -> None:
    first = {**text("a", 1), "metrics": {"stage_metrics": {"0": {"vllm_tpot_ms": 4.0}}}}
    second = {"choices": [], "metrics": {"stage_metrics": {"1": {"num_tokens_out": 3}, "0": {"num_tokens_out": 1}}}}
    answer = read((0.1, first), (0.2, second), (0.3, "[DONE]"))
    assert answer.stage_metrics == {"0": {"vllm_tpot_ms": 4.0, "num_tokens_out": 1}, "1": {"num_tokens_out": 3}}


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ({"error": {"message": "no memory"}}, "no memory"),
        ("{broken", "not JSON"),
        ("[1]", "no object"),
        (audio("***"), "base64"),
        (audio(base64.b64encode(b"RIFFxxxx").decode()), "broken WAV"),
    ],
)
def test_what_cannot_be_read_fails_the_request(event: object, reason: str) -> None:
    answer = read((0.1, text("a", 1)), (0.2, event), (0.3, "[DONE]"))
    assert answer.error is not None
    assert reason in answer.error


def test_a_stream_cut_off_is_a_failure_and_a_finished_one_without_end_mark_is_not() -> None:
    assert read((0.1, text("a", 1))).error == "the stream ended before the answer did"
    assert read((0.1, text("a", 1, finish_reason="stop"))).error is None


@pytest.mark.parametrize(
    "chunk",
    [
        {"choices": None},
        {"choices": [None, 3]},
        {"choices": [{"delta": None}]},
        {"choices": [{"delta": {"content": 4}}], "usage": "many", "metrics": [1]},
        {"choices": [{"delta": {"audio": {"data": 5}}}], "metrics": {"stage_metrics": {"0": None}}},
    ],
)
def test_odd_but_legal_chunks_are_skipped(chunk: object) -> None:
    answer = read((0.1, chunk), (0.2, "[DONE]"))
    assert (answer.error, answer.texts, answer.audios) == (None, (), ())


def test_the_sound_itself_is_kept_only_if_it_is_asked_for() -> None:
    chunk = {"modality": "audio", "choices": [{"delta": {"content": wav(5)}, "finish_reason": "stop"}]}
    event = f"data: {json.dumps(chunk)}\n\n".encode()
    for keeps_audio, expected in ((False, b""), (True, base64.b64decode(wav(5)))):
        stream = ChatStream(keeps_audio=keeps_audio)
        stream.feed(event, 0.1)
        assert [arrival.payload for arrival in stream.close().audios] == [expected]
