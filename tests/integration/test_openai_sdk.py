"""The official OpenAI client against a real server of the tiny model."""

import asyncio
import base64
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pytest
import soundfile
import torch

from antiphon.config.load import load_deploy
from antiphon.pipeline.build import build_omni_model
from antiphon.pipeline.eager.voices import DEFAULT_VOICE
from antiphon.pipeline.local_engine import LocalEngine
from antiphon.serving.app import Services, create_app
from antiphon.serving.engine_pipeline import EnginePipeline
from antiphon.serving.served_model import describe_model
from antiphon.serving.settings import ServeSettings

MESSAGES: Any = [{"role": "user", "content": "Hello, who are you?"}]
PCM: Any = {"voice": "alloy", "format": "pcm16"}


@pytest.fixture(scope="module")
def base_url(tiny_checkpoint: Path, listen: Any) -> Iterator[str]:
    """A server with its engine, as `antiphon serve` puts it together."""
    model = build_omni_model(tiny_checkpoint, device=torch.device("cpu"))
    deploy = load_deploy("cpu.yaml", platform="cpu")
    engine = LocalEngine(model, deploy)
    engine.start()
    assert model.folder is not None
    services = Services(
        pipeline=EnginePipeline(engine),
        model=describe_model(model, deploy, root="tiny", names=("tiny",), created_s=1, is_tiny=True),
        voices=engine.voices,
        settings=ServeSettings(api_keys=("secret",)),
        default_voice=model.folder / DEFAULT_VOICE,
    )
    with listen(create_app(services)) as url:
        yield url


@pytest.fixture
def client(base_url: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{base_url}/v1", api_key="secret", max_retries=0) as client:
        yield client


def test_a_text_answer(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model="tiny", messages=MESSAGES, modalities=["text"], max_tokens=8)
    assert answer.choices[0].message.content
    assert answer.choices[0].message.audio is None
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 8


def test_the_same_seed_gives_the_same_answer(client: openai.OpenAI) -> None:
    fields: Any = {"model": "tiny", "messages": MESSAGES, "temperature": 1.0, "max_completion_tokens": 12}
    first, second, other = (
        client.chat.completions.create(**fields, seed=seed, modalities=["text"]).choices[0].message.content
        for seed in (5, 5, 6)
    )
    assert first == second != other


def test_a_spoken_answer(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model="tiny",
        messages=MESSAGES,
        modalities=["text", "audio"],
        audio={"voice": "alloy", "format": "wav"},
        max_tokens=8,
    )
    message = answer.choices[0].message
    assert message.audio is not None
    assert message.audio.transcript == message.content != ""
    samples, rate_hz = soundfile.read(io.BytesIO(base64.b64decode(message.audio.data)))
    assert rate_hz == 24_000
    assert len(samples) % 960 == 0 < len(samples)


def test_a_stream_of_text_and_speech(client: openai.OpenAI) -> None:
    chunks = list(
        client.chat.completions.create(
            model="tiny",
            messages=MESSAGES,
            modalities=["text", "audio"],
            audio=PCM,
            max_tokens=24,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    choices = [choice for chunk in chunks for choice in chunk.choices]
    assert [choice.finish_reason for choice in choices if choice.finish_reason] in (["stop"], ["length"])
    text = "".join(choice.delta.content or "" for choice in choices)
    audio: list[Any] = [choice.delta.audio for choice in choices if choice.delta.audio is not None]
    content = b"".join(base64.b64decode(piece.data) for piece in audio if getattr(piece, "data", None))
    assert "".join(getattr(piece, "transcript", None) or "" for piece in audio) == text != ""
    usage: Any = chunks[-1].usage
    assert len(content) == usage.completion_tokens_details.audio_tokens * 960 * 2 > 0


def test_c69_the_clients_own_accumulator_takes_the_stream(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(
        model="tiny", messages=MESSAGES, modalities=["text", "audio"], audio=PCM, max_tokens=12
    ) as stream:
        for _ in stream:
            pass
        message: Any = stream.get_final_completion().choices[0].message
    assert message.content
    assert message.audio.id.startswith("audio-")
    assert message.audio.transcript == message.content
    samples = np.frombuffer(base64.b64decode(message.audio.data, validate=True), "<i2")
    assert len(samples) % 960 == 0 < len(samples)


def test_the_asynchronous_client_answers_several_at_once(base_url: str) -> None:
    async def ask() -> list[Any]:
        async with openai.AsyncOpenAI(base_url=f"{base_url}/v1", api_key="secret") as client:
            return await asyncio.gather(
                *(
                    client.chat.completions.create(
                        model="tiny", messages=[{"role": "user", "content": f"{n}"}], modalities=["text"], max_tokens=6
                    )
                    for n in range(6)
                )
            )

    assert [bool(answer.choices[0].message.content) for answer in asyncio.run(ask())] == [True] * 6


def test_the_asynchronous_stream_can_be_left(base_url: str) -> None:
    async def leave() -> str:
        async with openai.AsyncOpenAI(base_url=f"{base_url}/v1", api_key="secret") as client:
            stream: Any = await client.chat.completions.create(model="tiny", messages=MESSAGES, stream=True)
            async for chunk in stream:
                if chunk.choices[0].delta.content:
                    break
            await stream.close()
            answer = await client.chat.completions.create(
                model="tiny", messages=MESSAGES, modalities=["text"], max_tokens=4
            )
            return answer.choices[0].message.content or ""

    assert asyncio.run(leave())


def test_sound_goes_in_as_the_client_sends_it(client: openai.OpenAI, encode_audio: Any, tone: Any) -> None:
    data = base64.b64encode(encode_audio(tone(1.0))).decode()
    content: Any = [
        {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}},
        {"type": "text", "text": "What do you hear?"},
    ]
    answer = client.chat.completions.create(
        model="tiny", messages=[{"role": "user", "content": content}], modalities=["text"], max_tokens=4
    )
    assert answer.choices[0].message.content


def test_the_fields_of_vllm_omni_travel_in_extra_body(client: openai.OpenAI, encode_audio: Any, tone: Any) -> None:
    """As the reference's own client asks: per-stage sampling, template switches, a reference voice."""
    voice = f"data:audio/wav;base64,{base64.b64encode(encode_audio(tone(2.0))).decode()}"
    answer: Any = client.chat.completions.create(
        model="tiny",
        messages=[
            {"role": "system", "content": [{"type": "text", "text": "You are a helpful assistant."}]},
            {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
        ],
        extra_body={
            "modalities": ["text", "audio"],
            "sampling_params_list": [
                {"temperature": 0.4, "top_p": 0.9, "top_k": 50, "max_tokens": 8, "seed": 42, "detokenize": True},
                {"temperature": 0.9, "top_k": 50, "max_tokens": 50, "seed": 42, "stop_token_ids": [6561]},
                {"temperature": 0.0, "top_k": -1, "max_tokens": 65536, "seed": 42, "repetition_penalty": 1.1},
            ],
            "chat_template_kwargs": {"use_tts_template": True, "enable_thinking": False},
            "ref_audio": voice,
            "return_stage_metrics": True,
        },
    )
    spoken = [choice.message.audio for choice in answer.choices if choice.message.audio]
    assert len(spoken) == 1
    assert answer.choices[0].audio_metadata["sample_rate_hz"] == 24_000
    assert answer.metrics["stage_metrics"]["1"]["num_tokens_out"] <= 50


def test_the_pieces_of_a_vllm_omni_stream_are_files(client: openai.OpenAI) -> None:
    stream: Any = client.chat.completions.create(
        model="tiny", messages=MESSAGES, max_tokens=24, stream=True, extra_body={"modalities": ["text", "audio"]}
    )
    num_files = 0
    for chunk in stream:
        if chunk.modality == "audio" and chunk.choices[0].delta.content:
            samples, rate_hz = soundfile.read(io.BytesIO(base64.b64decode(chunk.choices[0].delta.content)))
            assert (rate_hz, len(samples) > 0) == (24_000, True)
            num_files += 1
    assert num_files > 1


def test_a_text_is_read_aloud(client: openai.OpenAI, tmp_path: Path) -> None:
    whole = client.audio.speech.create(model="tiny", voice="alloy", input="Good morning to you.", response_format="wav")
    assert len(soundfile.read(io.BytesIO(whole.content))[0]) > 960
    with client.audio.speech.with_streaming_response.create(
        model="tiny", voice="alloy", input="Good morning to you.", response_format="pcm"
    ) as response:
        content = b"".join(response.iter_bytes())
    assert content == whole.content[44:]


def test_models_are_listed(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["tiny"]
    assert client.models.retrieve("tiny").id == "tiny"


def test_errors_have_the_clients_own_types(client: openai.OpenAI, base_url: str) -> None:
    def ask(asked: openai.OpenAI, **fields: Any) -> None:
        asked.chat.completions.create(**{"model": "tiny", "messages": MESSAGES, **fields})

    with pytest.raises(openai.BadRequestError, match="temperature"):
        ask(client, temperature=-1)
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        ask(client, model="gpt")
    with (
        openai.OpenAI(base_url=f"{base_url}/v1", api_key="wrong", max_retries=0) as stranger,
        pytest.raises(openai.AuthenticationError),
    ):
        ask(stranger)
