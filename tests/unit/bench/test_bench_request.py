"""Bodies of requests."""

from antiphon.bench.bench_request import BenchRequest, BodyOptions, render_body, text_part, url_part, user_message
from antiphon.bench.settings import Backend

REQUEST = BenchRequest(
    messages=(user_message(text_part("Hi")),),
    speech_text="Hi",
    prompt_len_tokens=1,
    max_tokens=7,
    fields={"ref_audio": "data:,", "modalities": ["text", "audio"]},
)


def test_a_row_goes_before_the_defaults_and_extra_body_before_the_row() -> None:
    options = BodyOptions(
        backend=Backend.CHAT_OMNI, model="m", sampling={"temperature": 0.3}, extra_body={"modalities": ["text"]}
    )
    body = render_body(REQUEST, options)
    assert (body["model"], body["max_tokens"], body["temperature"]) == ("m", 7, 0.3)
    assert (body["modalities"], body["ref_audio"]) == (["text"], "data:,")
    assert "return_stage_metrics" not in body


def test_stage_metrics_are_asked_for_when_wanted() -> None:
    options = BodyOptions(backend=Backend.CHAT_OMNI, model="m", has_stage_metrics=True)
    assert render_body(REQUEST, options)["return_stage_metrics"] is True


def test_the_plain_chat_backend_sends_nothing_that_openai_does_not_know() -> None:
    request = BenchRequest(messages=REQUEST.messages, speech_text="", prompt_len_tokens=1, max_tokens=7)
    body = render_body(request, BodyOptions(backend=Backend.CHAT, model="m", has_stage_metrics=True))
    assert set(body) == {"model", "messages", "max_tokens", "stream", "temperature", "stream_options"}
    assert body["stream_options"] == {"include_usage": True}


def test_the_speech_backend_sends_the_text_to_speak() -> None:
    body = render_body(REQUEST, BodyOptions(backend=Backend.SPEECH, model=""))
    assert body["input"] == "Hi"
    assert "messages" not in body
    assert "model" not in body


def test_media_make_a_list_of_parts() -> None:
    assert user_message(text_part("Hi")) == {"role": "user", "content": "Hi"}
    assert user_message(url_part("image", "data:,"), text_part("Hi"))["content"] == [
        {"type": "image_url", "image_url": {"url": "data:,"}},
        {"type": "text", "text": "Hi"},
    ]
