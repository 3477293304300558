"""The speech side of one chat answer: from spoken tokens to samples, for either way of handing the text over."""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from antiphon.core.outputs import FinishReason
from antiphon.core.sampling import SamplingParams
from antiphon.engine.code_buffer import LOOKAHEAD_IDS
from antiphon.engine.noise import Argmax, NoiseSource
from antiphon.models.talker.talker import Talker
from antiphon.pipeline.eager.answer_text import SpokenToken
from antiphon.pipeline.eager.talker import CodeStop, TalkerSequence
from antiphon.pipeline.eager.talker_condition import close_condition, condition_rows
from antiphon.pipeline.eager.talker_stream import TalkerStream
from antiphon.pipeline.eager.vocoder import Vocoder
from antiphon.pipeline.speech import PIECE_CODES, SAMPLES_PER_CODE
from antiphon.pipeline.stage_sampling import code_sampling

ReportCodes = Callable[[int], None]  # told how many codec ids were drawn so far


class _Reporting:
    """A noise source that tells how often it was asked."""

    def __init__(self, noise: NoiseSource, report: ReportCodes) -> None:
        self._noise = noise
        self._report = report
        self._num_draws = 0

    def draw(self, probs: Tensor) -> int:
        self._num_draws += 1
        self._report(self._num_draws)
        return self._noise.draw(probs)


def _rows(talker: Talker, tokens: Sequence[SpokenToken]) -> Tensor:
    return condition_rows(talker, [token.id for token in tokens], [token.hidden for token in tokens])


class SpanSpeech:
    """The whole answer conditions the Talker, and all its codes are voiced at once, as the checkpoint's `chat()` does.

    *in_chunks* voices them as a stream instead, as the engine does: the same codes, but other samples, since a chunk
    hears less of what is around it.

    Attributes:
        codes: all codec ids.
        finish_reason: None until something was spoken.
    """

    def __init__(
        self,
        talker: Talker,
        vocoder: Vocoder,
        params: SamplingParams,
        noise: NoiseSource,
        report: ReportCodes,
        *,
        in_chunks: bool = False,
    ) -> None:
        self._in_chunks = in_chunks
        self.codes: tuple[int, ...] = ()
        self.finish_reason: FinishReason | None = None
        self._talker = talker
        self._vocoder = vocoder
        self._params = params
        chance = Argmax() if params.temperature == 0.0 else noise
        self._sequence = TalkerSequence(talker, _Reporting(chance, report), sampling=code_sampling(params))

    def speak(self, tokens: Sequence[SpokenToken], *, is_last: bool) -> Iterator[Tensor]:
        """Speak the whole answer; yields its samples [N] float32. *is_last* must be true."""
        assert is_last
        if not tokens:
            return
        with torch.inference_mode():
            condition = close_condition(self._talker, _rows(self._talker, tokens), has_text_eos=True)
            # The rule loses the last draw at the limit, so one more gives as many codes as were asked for.
            spoken = self._sequence.generate(
                condition, min_codes=self._params.min_tokens, max_draws=self._params.max_tokens + 1
            )
        self.codes = spoken.codes
        self.finish_reason = FinishReason.STOP if spoken.stop is CodeStop.EOS else FinishReason.LENGTH
        if self.codes:
            yield self._voiced_in_chunks() if self._in_chunks else self._vocoder.speak(self.codes)

    def _voiced_in_chunks(self) -> Tensor:
        samples = self._vocoder.stream().push(self.codes, first=False, end_of_turn=True)
        return samples[LOOKAHEAD_IDS * SAMPLES_PER_CODE :]


class StreamSpeech:
    """Ten tokens at a time condition the Talker, and speech leaves in chunks of 25 codes while the text still grows.

    The parameters' `min_tokens` has no meaning here: a piece of text ends when it is spoken. The three codes of silence
    that prime the vocoder are not part of the answer; their 120 ms are left out (the reference plays them).

    Attributes: as `SpanSpeech`.
    """

    def __init__(
        self, talker: Talker, vocoder: Vocoder, params: SamplingParams, noise: NoiseSource, report: ReportCodes
    ) -> None:
        self.finish_reason: FinishReason | None = None
        self._talker = talker
        self._params = params
        chance = Argmax() if params.temperature == 0.0 else noise
        self._stream = TalkerStream(talker, _Reporting(chance, report), sampling=code_sampling(params))
        self._voice = vocoder.stream()
        self._num_to_skip = LOOKAHEAD_IDS * SAMPLES_PER_CODE

    @property
    def codes(self) -> tuple[int, ...]:
        return tuple(self._stream.codes)

    def speak(self, tokens: Sequence[SpokenToken], *, is_last: bool) -> Iterator[Tensor]:
        """Speak the next piece of the answer; yields samples [N] float32 as they become ready."""
        stream = self._stream
        num_left = self._params.max_tokens - len(stream.codes)
        if self.finish_reason is None and num_left > 0 and (tokens or stream.codes):
            stream.max_codes = min(PIECE_CODES, num_left)
            yield from self._voice_blocks(_rows(self._talker, tokens), is_last)
            num_left = self._params.max_tokens - len(stream.codes)
        if self.finish_reason is None and stream.codes and (is_last or num_left == 0):
            # No end was drawn: a limit cut the speech off, and what is buffered is the rest of it.
            self.finish_reason = FinishReason.LENGTH
            yield from self._voiced(stream.take_buffered(), is_final=True)

    def _voice_blocks(self, rows: Tensor, is_last: bool) -> Iterator[Tensor]:
        blocks = self._stream.speak(rows, is_last_text=is_last)
        while True:
            with torch.inference_mode():
                block = next(blocks, None)
            if block is None:
                return
            if block.is_final:
                self.finish_reason = FinishReason.STOP
            yield from self._voiced(block.codes, is_final=block.is_final)

    def _voiced(self, codes: Sequence[int], *, is_final: bool) -> Iterator[Tensor]:
        samples = self._voice.push(codes, first=False, end_of_turn=is_final)
        skipped = min(self._num_to_skip, len(samples))
        self._num_to_skip -= skipped
        if len(samples) > skipped:
            yield samples[skipped:]
