"""Given texts through the engine: the codes of the slow twin, whatever runs beside them."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from antiphon.config.load import load_deploy
from antiphon.core.handoff import Handoff
from antiphon.core.sampling import DEFAULT_STAGE_PARAMS
from antiphon.engine.counter_noise import CounterNoise
from antiphon.models.code2wav.counter_source import CounterSourceNoise
from antiphon.pipeline.build import build_omni_model
from antiphon.pipeline.eager.given_speech import speak_given
from antiphon.pipeline.eager.vocoder import Vocoder
from antiphon.pipeline.events import AudioChunk, Finished, TextDelta
from antiphon.pipeline.local_engine import LocalEngine
from antiphon.pipeline.process_engine import ProcessEngine
from antiphon.pipeline.request import GenerationRequest
from antiphon.prompt.chat_prompt import build_chat_prompt
from antiphon.prompt.messages import Message, TextPart

TEXTS = ("One.", "The tide comes in, and the tide goes out again. " * 4, "Once more: the tide comes in!", "One.")
# A budget of few tokens cuts prompt and text over several launches.
SMALL = '{"0": {"max_num_seqs": 4, "max_num_batched_tokens": 40, "enable_prefix_caching": true}}'


@pytest.fixture(scope="module")
def model(tiny_checkpoint: Path):
    return build_omni_model(tiny_checkpoint, device=torch.device("cpu"))


def make_request(model, voice, index: int) -> GenerationRequest:
    text = TEXTS[index]
    given = tuple(model.tokenizer.encode_plain(text))
    message = Message("user", (TextPart(f"Please read the text below.\n{text}"),))
    thinker, talker, code2wav = DEFAULT_STAGE_PARAMS
    return GenerationRequest(
        request_id=f"given-{index}",
        prompt=build_chat_prompt([message], model.tokenizer, model.image_config, join="\n", use_tts_template=True),
        sampling=(
            replace(thinker, max_tokens=len(given), min_tokens=0),
            replace(talker, min_tokens=0, max_tokens=60, seed=index),
            replace(code2wav, seed=index),
        ),
        voice=voice,
        handoff=Handoff.STREAM,
        given=given,
    )


def answer(engine, request: GenerationRequest):
    events = list(engine.submit(request))
    assert isinstance(events[-1], Finished), events[-1]
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    return events[-1], text, np.concatenate([event.samples for event in events if isinstance(event, AudioChunk)])


def check(model, voice, request: GenerationRequest, answered) -> None:
    finished, text, samples = answered
    vocoder = Vocoder(model.code2wav, voice.features)
    vocoder.source_noise = CounterSourceNoise(request.sampling[2].seed)
    expected = speak_given(
        model, request.prompt, request.given, vocoder=vocoder, talker_params=request.sampling[1], noise=CounterNoise
    )
    assert finished.codec_ids == expected.codes
    assert finished.token_ids == request.given
    assert text == finished.text == model.tokenizer.decode(request.given, skip_special=True)
    assert len(samples) == len(expected.samples)
    assert np.abs(samples - expected.samples.numpy()).max() < 2e-3


def test_given_texts_are_spoken_as_the_slow_twin_speaks_them(model) -> None:
    with LocalEngine(model, load_deploy("cpu.yaml", platform="cpu", stage_overrides=SMALL)) as engine:
        engine.start()
        voice = engine.voices.prepare(None)
        requests = [make_request(model, voice, index) for index in range(len(TEXTS))]
        with ThreadPoolExecutor(len(requests)) as pool:
            answers = list(pool.map(lambda request: answer(engine, request), requests))
        for request, answered in zip(requests, answers, strict=True):
            check(model, voice, request, answered)
        again = answer(engine, replace(requests[0], request_id="again"))  # its prompt is in the cache now
        check(model, voice, requests[0], again)


def test_given_texts_are_spoken_in_worker_processes(model) -> None:
    front = build_omni_model(model.folder, device=torch.device("cpu"), only=())
    with ProcessEngine(front, load_deploy("cpu.yaml", platform="cpu"), source=str(model.folder)) as engine:
        engine.start(timeout_s=120)
        voice = engine.voices.prepare(None)
        request = make_request(model, voice, 2)
        check(model, voice, request, answer(engine, request))
