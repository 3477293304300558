from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from antiphon.core.outputs import FinishReason
from antiphon.core.sampling import SamplingParams
from antiphon.models.talker.talker import Talker
from antiphon.pipeline.eager.answer_speech import SAMPLES_PER_CODE, SpanSpeech, StreamSpeech
from antiphon.pipeline.eager.answer_text import SpokenToken

EOS = 31
PRIMING = 3 * SAMPLES_PER_CODE


class Script:
    """Draws code 5, but the end code at the given draws."""

    def __init__(self, *ends: int) -> None:
        self._ends = ends
        self._num_draws = 0

    def draw(self, probs: Tensor) -> int:
        self._num_draws += 1
        return EOS if self._num_draws - 1 in self._ends else 5


class FakeStream:
    def __init__(self) -> None:
        self.pushed: list[tuple[int, bool]] = []

    def push(self, codes: Sequence[int], *, first: bool, end_of_turn: bool) -> Tensor:
        primed = PRIMING if not self.pushed else 0
        self.pushed.append((len(codes), end_of_turn))
        return torch.ones(primed + len(codes) * SAMPLES_PER_CODE)


class FakeVocoder:
    def __init__(self) -> None:
        self.streamed = FakeStream()

    def speak(self, codes: Sequence[int]) -> Tensor:
        return torch.ones(len(codes) * SAMPLES_PER_CODE)

    def stream(self) -> FakeStream:
        return self.streamed


def tokens(count: int) -> list[SpokenToken]:
    return [SpokenToken(index, torch.full((12,), float(index)), 0) for index in range(count)]


@pytest.fixture
def talker(make_talker: Callable[..., Talker]) -> Talker:
    return make_talker()


def params(**fields: object) -> SamplingParams:
    return SamplingParams.from_mapping({"temperature": 0.8, "max_tokens": 60, **fields})


def samples(pieces: Sequence[Tensor]) -> int:
    return sum(len(piece) for piece in pieces)


def test_a_span_is_voiced_at_once_with_40_ms_a_code(talker: Talker) -> None:
    counted: list[int] = []
    speech = SpanSpeech(talker, FakeVocoder(), params(), Script(30), counted.append)  # type: ignore[arg-type]
    pieces = list(speech.speak(tokens(4), is_last=True))
    assert (len(pieces), len(speech.codes), speech.finish_reason) == (1, 30, FinishReason.STOP)
    assert samples(pieces) == 30 * SAMPLES_PER_CODE
    assert counted == list(range(1, 32))


def test_a_limit_gives_exactly_as_many_codes_as_asked_for(talker: Talker) -> None:
    for kind in (SpanSpeech, StreamSpeech):
        speech = kind(talker, FakeVocoder(), params(max_tokens=33), Script(), lambda _: None)  # type: ignore[arg-type]
        pieces = list(speech.speak(tokens(4), is_last=True))
        assert (len(speech.codes), speech.finish_reason) == (33, FinishReason.LENGTH)
        assert samples(pieces) == 33 * SAMPLES_PER_CODE


def test_no_tokens_are_no_speech(talker: Talker) -> None:
    for kind in (SpanSpeech, StreamSpeech):
        speech = kind(talker, FakeVocoder(), params(), Script(), lambda _: None)  # type: ignore[arg-type]
        assert list(speech.speak([], is_last=True)) == []
        assert (speech.codes, speech.finish_reason) == ((), None)


def test_temperature_zero_asks_no_chance(talker: Talker) -> None:
    greedy = [
        SpanSpeech(talker, FakeVocoder(), params(temperature=0), Script(end), lambda _: None)  # type: ignore[arg-type]
        for end in (1, 20)
    ]
    for speech in greedy:
        list(speech.speak(tokens(3), is_last=True))
    assert greedy[0].codes == greedy[1].codes


def test_a_stream_speaks_while_text_grows_and_leaves_out_the_priming_silence(talker: Talker) -> None:
    vocoder = FakeVocoder()
    speech = StreamSpeech(talker, vocoder, params(max_tokens=500), Script(30, 41), lambda _: None)  # type: ignore[arg-type]
    first = list(speech.speak(tokens(10), is_last=False))
    assert samples(first) == 25 * SAMPLES_PER_CODE
    last = list(speech.speak(tokens(4), is_last=True))
    assert vocoder.streamed.pushed == [(25, False), (15, True)]
    assert (len(speech.codes), speech.finish_reason) == (40, FinishReason.STOP)
    assert samples(first + last) == 40 * SAMPLES_PER_CODE


def test_a_stream_that_reached_its_limit_ignores_further_text(talker: Talker) -> None:
    vocoder = FakeVocoder()
    speech = StreamSpeech(talker, vocoder, params(max_tokens=30), Script(), lambda _: None)  # type: ignore[arg-type]
    pieces = list(speech.speak(tokens(10), is_last=False))
    assert list(speech.speak(tokens(10), is_last=True)) == []
    assert samples(pieces) == 30 * SAMPLES_PER_CODE
    assert vocoder.streamed.pushed[-1] == (5, True)
