import numpy as np

from antiphon.core.outputs import FinishReason
from antiphon.pipeline.answer import Answer
from antiphon.pipeline.events import AudioChunk, TextDelta
from antiphon.pipeline.messages import DrawnCodes, RequestOutput, SpeechEnd, SpeechSamples, TextEnd, TextTokens
from antiphon.prompt.tokenizer import Tokenizer

TOKENIZER = Tokenizer.placeholder(1_000)


def make(*, speaks: bool = False, stop: tuple[str, ...] = ()) -> Answer:
    return Answer(TOKENIZER, stop=stop, speaks=speaks, num_prompt_tokens=7, start_s=10.0)


def tokens(*ids: int) -> TextTokens:
    return TextTokens(request_id="a", epoch=0, ids=ids)


def text_end(stop_id: int | None = None, reason: FinishReason = FinishReason.STOP) -> TextEnd:
    return TextEnd(request_id="a", epoch=0, reason=reason, stop_id=stop_id, num_cached_tokens=0)


def samples(count: int, *, is_last: bool) -> SpeechSamples:
    return SpeechSamples(request_id="a", epoch=0, samples=np.ones(count, np.float32), is_last=is_last)


def test_text_is_shown_as_it_comes_and_the_terminator_is_not() -> None:
    answer = make()
    assert answer.receive(tokens(300, 301), 11.0) == TextDelta(" w300 w301")
    assert answer.receive(tokens(302), 12.0) == TextDelta(" w302")
    assert not answer.is_complete
    assert answer.receive(text_end(stop_id=400), 13.0) is None
    assert answer.is_complete
    finished = answer.finish(14.0)
    assert (finished.text, finished.token_ids) == (" w300 w301 w302", (300, 301, 302, 400))
    assert (finished.codec_ids, finished.speech_finish_reason) == ((), None)
    metrics = finished.metrics
    assert (metrics.time_to_first_text_s, metrics.text_finished_s, metrics.total_s) == (1.0, 3.0, 4.0)
    assert (metrics.num_prompt_tokens, metrics.num_text_tokens, metrics.time_to_first_audio_s) == (7, 4, None)


def test_a_spoken_answer_is_complete_with_text_and_last_samples_in_any_order() -> None:
    speech: list[RequestOutput] = [
        DrawnCodes(request_id="a", epoch=0, codes=(1, 2)),
        SpeechEnd(request_id="a", epoch=0, reason=FinishReason.LENGTH),
        samples(960, is_last=False),
        samples(960, is_last=True),
    ]
    for outputs in ([tokens(300), text_end(), *speech], [*speech, tokens(300), text_end()]):
        answer = make(speaks=True)
        for output in outputs[:-1]:
            answer.receive(output, 12.0)
            assert not answer.is_complete
        answer.receive(outputs[-1], 13.0)
        assert answer.is_complete
        finished = answer.finish(13.0)
        assert (finished.codec_ids, finished.speech_finish_reason) == ((1, 2), FinishReason.LENGTH)
        assert (finished.metrics.audio_duration_s, finished.metrics.time_to_first_audio_s) == (0.08, 2.0)


def test_samples_are_passed_on_and_empty_ones_are_not() -> None:
    answer = make(speaks=True)
    chunk = answer.receive(samples(3, is_last=False), 11.0)
    assert isinstance(chunk, AudioChunk)
    assert (len(chunk.samples), chunk.sample_rate_hz) == (3, 24_000)
    assert answer.receive(samples(0, is_last=True), 11.0) is None


def test_a_stop_string_is_never_shown_and_half_of_one_only_at_the_end() -> None:
    answer = make(stop=("w301",))
    assert answer.receive(tokens(300), 11.0) == TextDelta(" w300")
    assert answer.receive(tokens(301), 11.0) == TextDelta(" ")
    answer.receive(text_end(), 11.0)
    assert answer.finish(11.0).text == " w300 "
    half = make(stop=("w300 w3011",))
    assert half.receive(tokens(300, 301), 11.0) == TextDelta(" ")
    assert half.receive(text_end(), 11.0) == TextDelta("w300 w301")


def test_the_times_of_queue_and_codes_and_the_replicas_are_in_the_metrics() -> None:
    answer = make(speaks=True)
    answer.sent(10.5, (0, 2, 1))
    for moment_s, output in (
        (11.0, tokens(300)),
        (12.0, DrawnCodes(request_id="a", epoch=0, codes=(1,))),
        (13.0, DrawnCodes(request_id="a", epoch=0, codes=(2,))),
        (14.0, text_end()),
        (15.0, SpeechEnd(request_id="a", epoch=0, reason=FinishReason.STOP)),
        (16.0, samples(960, is_last=True)),
    ):
        answer.receive(output, moment_s)
    metrics = answer.finish(16.0).metrics
    assert (metrics.queue_wait_s, metrics.first_code_s, metrics.codes_finished_s) == (0.5, 2.0, 5.0)
    assert metrics.replicas == (0, 2, 1)
