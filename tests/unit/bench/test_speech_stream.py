"""Streamed speech requests to timelines."""

import base64
import io
import json
import wave

from antiphon.bench.speech_stream import SpeechStream


def test_pcm_pieces_count_whole_samples_and_keep_the_rest() -> None:
    stream = SpeechStream(is_events=False)
    stream.feed(bytes(481), 0.1)
    stream.feed(bytes(479), 0.2)
    answer = stream.close()
    assert [(arrival.at_s, arrival.num_frames) for arrival in answer.audios] == [(0.1, 240), (0.2, 240)]
    assert (answer.e2e_s, answer.error) == (0.2, None)


def test_a_wav_header_split_anywhere_is_no_sound() -> None:
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(16_000)
        writer.writeframes(bytes(3200))
    content = file.getvalue()
    for cut in (2, 20, 44, 100):
        stream = SpeechStream(is_events=False)
        stream.feed(content[:cut], 0.1)
        stream.feed(content[cut:], 0.2)
        answer = stream.close()
        assert sum(arrival.num_frames for arrival in answer.audios) == 1600
        assert {arrival.sample_rate_hz for arrival in answer.audios} == {16_000}


def test_openai_audio_events_are_read() -> None:
    stream = SpeechStream(is_events=True)
    delta = {"type": "speech.audio.delta", "audio": base64.b64encode(bytes(480)).decode()}
    stream.feed(f"data: {json.dumps(delta)}\n\n".encode(), 0.3)
    stream.feed(b'data: {"type": "speech.audio.done"}\n\ndata: [DONE]\n\n', 0.4)
    answer = stream.close()
    assert [arrival.num_frames for arrival in answer.audios] == [240]
    assert answer.error is None


def test_an_answer_without_sound_has_failed() -> None:
    assert SpeechStream(is_events=False).close().error == "the answer holds no sound"
    stream = SpeechStream(is_events=True)
    stream.feed(b'data: {"error": "no voice"}\n\n', 0.1)
    assert stream.close().error == '"no voice"'


def test_kept_samples_are_whole_and_without_the_header() -> None:
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(24_000)
        writer.writeframes(bytes(range(20)))
    stream = SpeechStream(is_events=False, keeps_audio=True)
    stream.feed(file.getvalue()[:51], 0.1)
    stream.feed(file.getvalue()[51:], 0.2)
    assert [arrival.payload for arrival in stream.close().audios] == [bytes(range(6)), bytes(range(6, 20))]
