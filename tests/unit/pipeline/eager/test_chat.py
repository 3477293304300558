from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count

import pytest
import torch
from torch import Tensor

from antiphon.core.errors import ContextLengthError, SamplingError
from antiphon.core.handoff import Handoff
from antiphon.core.sampling import DEFAULT_STAGE_PARAMS, SamplingParams
from antiphon.pipeline.eager.chat import ChatGenerator, ChatRequest
from antiphon.pipeline.events import AudioChunk, Finished, TextDelta
from antiphon.pipeline.omni_model import OmniModel
from antiphon.prompt.chat_prompt import ChatPrompt

_, TALKER, CODE2WAV = DEFAULT_STAGE_PARAMS
SHORT = (SamplingParams(max_tokens=25, seed=3), replace(TALKER, min_tokens=0, max_tokens=60), CODE2WAV)


class FakeVocoder:
    source_noise: object = None

    def speak(self, codes: Sequence[int]) -> Tensor:
        return torch.ones(960 * len(codes))

    def stream(self) -> "FakeVocoder":
        return self

    def push(self, codes: Sequence[int], *, first: bool, end_of_turn: bool) -> Tensor:
        return torch.ones(960 * len(codes))


def request(**fields: object) -> ChatRequest:
    return ChatRequest(**{"prompt": ChatPrompt(ids=[5, 6, 7]), "sampling": SHORT, **fields})  # type: ignore[arg-type]


def test_text_comes_in_pieces_that_add_up(omni: OmniModel) -> None:
    *deltas, finished = ChatGenerator(omni).run(request())
    assert isinstance(finished, Finished)
    assert all(isinstance(delta, TextDelta) for delta in deltas)
    assert "".join(delta.text for delta in deltas) == finished.text  # type: ignore[union-attr]
    assert (len(finished.token_ids), finished.finish_reason.value) == (25, "length")
    assert (finished.codec_ids, finished.speech_finish_reason) == ((), None)


def test_text_alone_needs_neither_talker_nor_code2wav(omni: OmniModel) -> None:
    with_talker, without = (list(ChatGenerator(model).run(request())) for model in (omni, replace(omni, talker=None)))
    assert with_talker[:-1] == without[:-1]


@pytest.mark.parametrize("handoff", list(Handoff))
def test_speech_comes_in_chunks_that_add_up(omni: OmniModel, handoff: Handoff) -> None:
    events = list(ChatGenerator(omni).run(request(vocoder=FakeVocoder(), handoff=handoff)))
    finished = events[-1]
    assert isinstance(finished, Finished)
    num_samples = sum(len(event.samples) for event in events if isinstance(event, AudioChunk))
    assert finished.metrics.audio_duration_s == num_samples / 24_000
    assert len(finished.codec_ids) == finished.metrics.num_codec_frames > 0


def test_streamed_speech_starts_before_the_text_ends(omni: OmniModel) -> None:
    def kinds(handoff: Handoff) -> list[str]:
        events = ChatGenerator(omni).run(request(vocoder=FakeVocoder(), handoff=handoff))
        return ["audio" if isinstance(event, AudioChunk) else "text" for event in events]

    streamed, span = kinds(Handoff.STREAM), kinds(Handoff.SPAN)
    assert "text" in streamed[streamed.index("audio") : -1]
    assert span[-2:] == ["audio", "text"]
    assert "audio" not in span[:-2]


def test_the_same_seeds_give_the_same_answer(omni: OmniModel) -> None:
    def run(seed: int | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
        sampling = tuple(replace(params, seed=seed) for params in SHORT)
        finished = list(ChatGenerator(omni).run(request(vocoder=FakeVocoder(), sampling=sampling)))[-1]
        assert isinstance(finished, Finished)
        return finished.token_ids, finished.codec_ids

    assert run(1) == run(1)
    assert run(1) != run(2)
    assert run(None) != run(None)


def test_times_are_measured_from_the_start(omni: OmniModel) -> None:
    ticks = count()
    events = list(ChatGenerator(omni, clock=lambda: float(next(ticks))).run(request(vocoder=FakeVocoder())))
    finished = events[-1]
    assert isinstance(finished, Finished)
    metrics = finished.metrics
    assert metrics.num_prompt_tokens == 3
    assert metrics.time_to_first_text_s == 1.0
    assert metrics.time_to_first_text_s < metrics.text_finished_s < metrics.total_s
    assert metrics.time_to_first_audio_s is not None
    assert metrics.text_finished_s < metrics.time_to_first_audio_s < metrics.total_s


@pytest.mark.parametrize(
    ("num_prompt", "max_tokens", "reason"),
    [(120, 20, "120 tokens and max_tokens is 20.*context is 128.*at most 8"), (128, 1, "128 tokens.*context 128")],
)
def test_a_prompt_beyond_the_context_is_refused_with_the_numbers(
    make_omni: Callable[..., OmniModel], num_prompt: int, max_tokens: int, reason: str
) -> None:
    sampling = (SamplingParams(max_tokens=max_tokens), *SHORT[1:])
    with pytest.raises(ContextLengthError, match=reason):
        ChatGenerator(make_omni(max_positions=128)).run(
            request(prompt=ChatPrompt(ids=[1] * num_prompt), sampling=sampling)
        )


def test_more_text_than_the_talker_can_speak_in_one_span_is_refused(make_omni: Callable[..., OmniModel]) -> None:
    generator = ChatGenerator(make_omni(max_positions=40_960))
    sampling = (SamplingParams(max_tokens=5_000), *SHORT[1:])
    generator.check(request(sampling=sampling))
    generator.check(request(sampling=sampling, vocoder=FakeVocoder(), handoff=Handoff.STREAM))
    with pytest.raises(ContextLengthError, match="the talker can speak at most 4093"):
        generator.check(request(sampling=sampling, vocoder=FakeVocoder()))


def test_a_field_of_another_stage_is_refused_before_anything_runs(omni: OmniModel) -> None:
    sampling = (SHORT[0], replace(TALKER, stop=("x",)), CODE2WAV)
    with pytest.raises(SamplingError, match=r"stop.*talker"):
        ChatGenerator(omni).run(request(sampling=sampling))


def test_an_abandoned_answer_ends(omni: OmniModel) -> None:
    events = ChatGenerator(omni).run(request())
    next(events)
    events.close()  # type: ignore[attr-defined]
    assert list(events) == []
