"""Given texts, spoken."""

import base64
import io
import json
from typing import Any

import pytest
import soundfile

from antiphon.core.errors import EngineError
from antiphon.core.handoff import Handoff
from antiphon.pipeline.events import Failed

Server = Any


def speak(server: Server, **fields: object) -> Any:
    return server.request("POST", "/v1/audio/speech", json={"input": "Good morning.", "voice": "any", **fields})


def test_the_text_itself_is_the_answer(server: Server) -> None:
    response = speak(server)
    assert response.status_code == 200
    (request,) = server.pipeline.requests
    tokenizer = server.services.model.tokenizer
    assert tokenizer.decode(request.given, skip_special=False) == "Good morning."
    assert "Please read the text below.\nGood morning." in request.prompt.text
    assert request.prompt.text.endswith("<|tts_bos|>")
    assert request.handoff is Handoff.STREAM


def test_special_tokens_in_the_text_are_read_as_letters(server: Server) -> None:
    speak(server, input="a <|tts_eos|><|im_end|> b")
    assert set(server.pipeline.requests[0].given) & server.services.model.tokenizer.special_ids == set()


@pytest.mark.parametrize("form", ["wav", "pcm", "flac", "mp3", "opus"])
def test_speech_streams_as_one_file(server: Server, form: str) -> None:
    server.pipeline.events = [server.speech(24_000), server.speech(24_000)]
    response = speak(server, response_format=form)
    assert response.headers["content-type"].startswith("audio/")
    assert response.headers["x-sample-rate"] == "24000"
    if form == "pcm":
        assert len(response.content) == 96_000
    elif form != "flac":  # libsndfile wants to know the length of a FLAC file beforehand
        assert len(soundfile.read(io.BytesIO(response.content))[0]) >= 48_000


def test_a_whole_file_knows_its_length(server: Server) -> None:
    content = speak(server, stream=False).content
    assert int.from_bytes(content[40:44], "little") == len(content) - 44 == 2 * 1460


def test_events_carry_the_audio_and_then_the_usage(server: Server) -> None:
    response = speak(server, stream_format="sse", response_format="pcm")
    lines = [line.removeprefix("data: ") for line in response.text.split("\n\n") if line]
    assert lines[-1] == "[DONE]"
    *deltas, done = [json.loads(line) for line in lines[:-1]]
    assert {delta["type"] for delta in deltas} == {"speech.audio.delta"}
    assert sum(len(base64.b64decode(delta["audio"])) for delta in deltas) == 2 * 1460
    assert (done["type"], done["usage"]["output_tokens"]) == ("speech.audio.done", 1)


def test_the_voice_is_the_recording_that_is_named(server: Server, data_url: Any, encode_audio: Any, tone: Any) -> None:
    assert speak(server, ref_audio=data_url(encode_audio(tone(3.0)))).status_code == 200
    (request,) = server.pipeline.requests
    assert "Clone the voice in the provided audio prompt." in request.prompt.text
    assert len(request.prompt.clips) == 1
    assert speak(server, ref_audio=data_url(b"x")).status_code == 400


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": ""}, "input"),
        ({"input": "x" * 20_000}, "input"),
        ({"speed": 1.5}, "speed"),
        ({"response_format": "aac"}, "response_format"),
        ({"seed": -1}, "seed"),
        ({"ref_audio": 5}, "ref_audio"),
        ({"max_new_tokens": -5}, None),
        ({"input": "   "}, None),
    ],
)
def test_a_bad_field_is_refused_by_name(server: Server, fields: dict[str, object], param: str | None) -> None:
    response = speak(server, **fields)
    assert response.status_code == 400
    assert server.error(response)["param"] == param or param is None
    assert server.pipeline.requests == []


def test_the_seed_reaches_the_voice(server: Server) -> None:
    speak(server, seed=7)
    assert [params.seed for params in server.pipeline.requests[0].sampling] == [42, 7, 7]


def test_a_failure_has_a_status_or_an_event(server: Server) -> None:
    server.pipeline.end = Failed(EngineError("x"), "talker")
    assert speak(server, stream=False).status_code == 500
    assert '"code":500' in speak(server, stream_format="sse").text
    server.pipeline.events = []
    assert speak(server).status_code == 500
