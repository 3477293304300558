"""Streamed answers: order, shapes of speech, one finish reason, one usage, errors in the middle."""

import base64
import io
from typing import Any

import numpy as np
import pytest
import soundfile

from antiphon.audio.decode import load_audio
from antiphon.core.errors import EngineError
from antiphon.core.outputs import FinishReason
from antiphon.pipeline.events import Aborted, Failed, TextDelta

Server = Any
OPENAI = {"audio": {"voice": "alloy", "format": "pcm16"}}


def finish_reasons(chunks: list[dict[str, Any]]) -> list[str]:
    reasons = [choice["finish_reason"] for chunk in chunks for choice in chunk["choices"]]
    return [reason for reason in reasons if reason is not None]


def texts(chunks: list[dict[str, Any]]) -> list[str]:
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk.get("modality") == "text"]
    return [delta["content"] for delta in deltas if delta.get("content")]


def test_text_comes_token_by_token_between_speech(server: Server) -> None:
    chunks = server.stream()
    first = chunks[0]
    assert (first["object"], first["modality"]) == ("chat.completion.chunk", "text")
    assert first["choices"] == [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]
    assert [chunk["modality"] for chunk in chunks] == ["text", "text", "audio", "text", "audio", "audio"]
    assert texts(chunks) == ["Hello", " you."]
    assert len({chunk["id"] for chunk in chunks}) == 1


def test_c72_one_finish_reason_in_the_last_chunk(server: Server) -> None:
    chunks = server.stream()
    assert finish_reasons(chunks) == ["stop"]
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert not any("usage" in chunk for chunk in chunks)


def test_c72_usage_comes_once_after_the_finish_reason(server: Server) -> None:
    chunks = server.stream(stream_options={"include_usage": True}, return_stage_metrics=True)
    assert [bool(chunk.get("usage")) for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["completion_tokens_details"] == {"text_tokens": 3, "audio_tokens": 1}
    assert set(chunks[-1]["metrics"]["stage_metrics"]) == {"0", "1", "2"}
    assert finish_reasons(chunks) == ["stop"]


def test_running_usage_is_on_every_text_chunk(server: Server) -> None:
    chunks = server.stream(stream_options={"include_usage": True, "continuous_usage_stats": True})
    counted = [chunk["usage"]["completion_tokens"] for chunk in chunks if chunk.get("usage")]
    assert counted == [1, 2, 3]


def test_the_operator_can_force_usage(server: Server) -> None:
    server.configure(always_has_usage=True)
    assert server.stream()[-1]["usage"]["completion_tokens"] == 3


def test_a_text_stream_has_text_only(server: Server) -> None:
    chunks = server.stream(modalities=["text"])
    assert {chunk["modality"] for chunk in chunks} == {"text"}
    assert texts(chunks) == ["Hello", " you."]
    assert finish_reasons(chunks) == ["stop"]


@pytest.mark.parametrize("form", ["wav", "flac", "mp3", "opus"])
def test_each_piece_in_the_shape_of_vllm_omni_is_a_file_of_its_own(server: Server, form: str) -> None:
    server.pipeline.events = [TextDelta("a"), server.speech(24_000), server.speech(12_000)]
    chunks = server.stream(audio={"format": form})
    spoken = [chunk for chunk in chunks if "audio_metadata" in chunk["choices"][0]]
    assert [chunk["choices"][0]["audio_metadata"]["frame_count"] for chunk in spoken] == [24_000, 12_000]
    assert [chunk["choices"][0]["delta"]["role"] for chunk in spoken] == ["assistant"] * 2
    for piece, length in zip(server.audio(chunks), (24_000, 12_000), strict=True):
        samples, rate_hz = soundfile.read(io.BytesIO(piece))
        assert (rate_hz, len(samples) >= length) == (24_000, True)


def test_c67_raw_samples_have_no_header(server: Server) -> None:
    pieces = server.audio(server.stream(audio={"format": "pcm"}))
    assert [len(piece) for piece in pieces] == [1920, 1000]
    assert np.allclose(np.frombuffer(b"".join(pieces), "<i2"), 8191, atol=1)


@pytest.mark.parametrize("form", ["wav", "pcm16", "flac", "mp3", "opus"])
def test_c67_pieces_in_the_shape_of_openai_join_to_one_file(server: Server, form: str) -> None:
    server.pipeline.events = [TextDelta("a"), *(server.speech(size) for size in (7, 24_001, 5_000))]
    chunks = server.stream(audio={"voice": "alloy", "format": form})
    audio = [chunk["choices"][0]["delta"]["audio"] for chunk in chunks if "audio" in chunk["choices"][0]["delta"]]
    written = "".join(piece.get("data", "") for piece in audio)
    content = base64.b64decode(written, validate=True)
    assert content == b"".join(base64.b64decode(piece["data"]) for piece in audio if piece.get("data"))
    if form == "pcm16":
        assert len(content) == 2 * 29_008
    else:
        assert content.count(b"RIFF") == (form == "wav")
        assert abs(len(load_audio(content)) / 16_000 - 29_008 / 24_000) < 0.1
    if form == "wav":
        assert content[4:8] == content[40:44] == b"\xff\xff\xff\xff"


def test_c69_deltas_of_openai_have_one_id_and_the_expiry_at_the_end(server: Server) -> None:
    chunks = server.stream(**OPENAI)
    audio = [chunk["choices"][0]["delta"]["audio"] for chunk in chunks if "audio" in chunk["choices"][0]["delta"]]
    assert ["id" in piece for piece in audio] == [True] + [False] * (len(audio) - 1)
    assert ["expires_at" in piece for piece in audio] == [False] * (len(audio) - 1) + [True]
    assert "".join(piece.get("transcript", "") for piece in audio) == "Hello you."
    assert texts(chunks) == ["Hello", " you."]
    assert finish_reasons(chunks) == ["stop"]


def test_the_shape_is_chosen_by_the_request_or_by_the_presence_of_a_voice(server: Server) -> None:
    def has_openai_shape(**fields: object) -> bool:
        return any("audio" in chunk["choices"][0]["delta"] for chunk in server.stream(**fields))

    assert not has_openai_shape()
    assert not has_openai_shape(audio={"format": "wav"})
    assert has_openai_shape(**OPENAI)
    assert has_openai_shape(audio_stream_shape="openai")
    assert not has_openai_shape(**OPENAI, audio_stream_shape="vllm-omni")


def test_speech_alone_streams_without_text(server: Server) -> None:
    assert texts(server.stream(modalities=["audio"])) == []
    chunks = server.stream(modalities=["audio"], **OPENAI)
    assert texts(chunks) == []
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert "".join(delta.get("audio", {}).get("transcript", "") for delta in deltas) == "Hello you."


def test_speech_that_never_came_still_ends_the_stream(server: Server) -> None:
    server.pipeline.events = [TextDelta("Hello")]
    chunks = server.stream()
    assert chunks[-1]["choices"][0] == {"index": 0, "delta": {}, "finish_reason": "stop"}


def test_an_answer_at_its_limit_says_length(server: Server) -> None:
    server.pipeline.finish_reason = FinishReason.LENGTH
    assert finish_reasons(server.stream()) == ["length"]


def test_c80_thoughts_stream_apart(server: Server) -> None:
    server.pipeline.events = [TextDelta("<think>\n"), TextDelta("hm"), TextDelta("\n</think>\n\n"), TextDelta("Yes.")]
    chunks = server.stream(**OPENAI)
    thoughts = [chunk["choices"][0]["delta"].get("reasoning_content", "") for chunk in chunks]
    assert "".join(thoughts).strip() == "hm"
    assert texts(chunks) == ["Yes."]
    spoken = [chunk["choices"][0]["delta"].get("audio", {}).get("transcript", "") for chunk in chunks]
    assert "".join(spoken) == "Yes."


def test_an_error_in_the_middle_is_an_event_and_then_the_end(server: Server) -> None:
    server.pipeline.end = Failed(EngineError("secret"), "talker")
    response = server.chat(stream=True)
    assert response.status_code == 200
    chunks = server.events(response.text)
    assert chunks[-1]["error"]["error_stage_id"] == 1
    assert chunks[-1]["error"]["code"] == 500
    assert "secret" not in response.text
    assert finish_reasons(chunks[:-1]) == []


def test_an_error_before_the_first_event_has_a_status(server: Server) -> None:
    server.pipeline.events, server.pipeline.end = [], Failed(EngineError("x"), "thinker")
    assert server.chat(stream=True).status_code == 500


def test_an_abort_by_the_server_is_told(server: Server) -> None:
    server.pipeline.end = Aborted()
    chunks = server.events(server.chat(stream=True).text)
    assert chunks[-1]["error"]["code"] == 503
    server.pipeline.events = []
    assert server.chat().status_code == 503


def test_the_metrics_tell_what_was_streamed(server: Server) -> None:
    async def both(client: Any) -> str:
        await client.post("/v1/chat/completions", json={"messages": [{"role": "user", "content": "x"}], "stream": True})
        await client.post("/v1/chat/completions", json={"messages": [{"role": "user", "content": "x"}]})
        return str((await client.get("/metrics")).text)

    text = server.converse(both)
    for line in (
        'vllm_omni:audio_ttfp_s_count{model_name="omni",replica="0",stage="2"} 1.0',
        'vllm_omni:audio_duration_s_count{model_name="omni",replica="0",stage="2"} 2.0',
        'vllm_omni:requests_success_total{finished_reason="stop",model_name="omni"} 2.0',
        'vllm_omni:num_requests_running{model_name="omni"} 0.0',
        'vllm_omni:num_requests_waiting{model_name="omni"} 2.0',
        'vllm_omni:audio_continuity_ok_total{model_name="omni",replica="0",stage="2",threshold_ms="100"} 1.0',
        'antiphon:engine_events_total{event="talker_step_window",model_name="omni"} 3.0',
        'antiphon:engine_state{model_name="omni",name="thinker.blocks_used"} 7.0',
        'vllm:request_success_total{finished_reason="stop",model_name="omni",replica="0",stage="0"} 2.0',
        'vllm:time_to_first_token_seconds_count{model_name="omni",replica="0",stage="0"} 2.0',
        'vllm:inter_token_latency_seconds_count{model_name="omni",replica="0",stage="0"} 2.0',
        'vllm:generation_tokens_total{model_name="omni",replica="0",stage="0"} 6.0',
    ):
        assert line in text
