"""A turn-based spoken session at batch 1: input streams in, the context is kept, answers stream out as text and speech.

Specification, sections 2.10 and 3.4; as the reference does it, the text window included.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from torch import Tensor

from antiphon.core.errors import ConfigError, ContextLengthError, PromptError
from antiphon.engine.context_window import Cut
from antiphon.engine.noise import NoiseSource
from antiphon.engine.simplex_sampling import SimplexSampling
from antiphon.engine.talker_sampling import TalkerSampling
from antiphon.pipeline.eager.duplex_window import apply_cut
from antiphon.pipeline.eager.simplex_input import SegmentEncoder
from antiphon.pipeline.eager.simplex_prompt import (
    ANSWER_CUT_END,
    ANSWER_START,
    SPOKEN_START,
    SYSTEM_END,
    SYSTEM_START,
    USER_START,
    SegmentPrompt,
    write_segment,
)
from antiphon.pipeline.eager.simplex_window import RoundWindow
from antiphon.pipeline.eager.talker_condition import condition_rows
from antiphon.pipeline.eager.talker_stream import TalkerStream
from antiphon.pipeline.eager.text_chunks import AdjustLogits, TextChunk, TextChunks
from antiphon.pipeline.eager.thinker import ThinkerSequence
from antiphon.pipeline.eager.voice_output import Voice
from antiphon.pipeline.omni_model import OmniModel
from antiphon.prompt.detokenizer import Detokenizer
from antiphon.prompt.duplex_markup import simplex_forbidden_ids
from antiphon.prompt.messages import Message


@dataclass(frozen=True, kw_only=True)
class SimplexOptions:
    """Session arguments. `max_codes` bounds the codes of one ten-token piece of text."""

    sampling: SimplexSampling = field(default_factory=SimplexSampling)
    talker_sampling: TalkerSampling = field(default_factory=TalkerSampling)
    max_codes: int = 500
    window_high_tokens: int = 8000
    window_low_tokens: int = 6000


@dataclass(frozen=True)
class AnswerChunk:
    """The next piece of an answer. `is_final` only if the answer ended by itself, not by its token limit."""

    text: str
    waveform: Tensor | None  # [N] float32, 24 kHz; None in a text-only answer
    is_final: bool


@dataclass(frozen=True)
class SpokenPiece:
    """The talker's input for one piece of text, kept for inspection: condition rows [n, H] without specials."""

    rows: Tensor
    is_last_text: bool


class SimplexSession:
    """One conversation. Prefill the system message, then user segments, generate, user segments, generate, …

    Args:
        model: the loaded model.
        options: session arguments.
        noise: chance, for text and codes in the order they are drawn.
        voice: the voice to speak with; None for a session of text-only answers.
        sequence: the Thinker sequence to fill; None for a new one.

    Attributes:
        window: the registered rounds.
        ids: text ids of the latest answer.
        spoken: the talker's conditions of the latest answer.
    """

    def __init__(
        self,
        model: OmniModel,
        options: SimplexOptions,
        *,
        noise: NoiseSource,
        voice: Voice | None = None,
        sequence: ThinkerSequence | None = None,
    ) -> None:
        self.sequence = sequence if sequence is not None else ThinkerSequence(model.thinker)
        self.window = RoundWindow(high_tokens=options.window_high_tokens, low_tokens=options.window_low_tokens)
        self.ids: list[int] = []
        self.spoken: list[SpokenPiece] = []
        self.encoder = SegmentEncoder(model)
        self.system_len = 0
        self._model = model
        self._options = options
        self._noise = noise
        self._voice = voice
        self._forbidden_ids = simplex_forbidden_ids(model.tokenizer)
        self._is_new_turn = True
        self._has_answered = False

    @property
    def is_new_turn(self) -> bool:
        """The next user segment opens a turn."""
        return self._is_new_turn

    @property
    def has_answered(self) -> bool:
        return self._has_answered

    def prefill(self, message: Message, *, is_last_audio: bool = False) -> SegmentPrompt:
        """Feed the system message or the next segment of the user's turn; returns what was written.

        A user segment holds at most one audio part of at most 1 s: one step of the streaming encoder. Parts that are
        not the turn's last must be a full second (the first one is filled up with zeros in front).

        Raises:
            ContextLengthError: the segment exceeds the model's positions; nothing was fed.
        """
        if message.role == "system":
            if len(self.sequence) > 0:
                raise PromptError("the system message of a simplex session comes first and once")
            before, after = SYSTEM_START, SYSTEM_END
        elif message.role == "user":
            before, after = self._user_prefix(), ""
        else:
            raise PromptError(f"a simplex session takes system and user messages, not {message.role!r}")
        segment = write_segment(
            before,
            message.parts,
            after,
            self._model.tokenizer,
            self._model.image_config,
            pool_step=self._model.config.audio.pool_step,
        )
        if not segment.ids:
            raise PromptError("a segment has no content")
        if message.role == "user":
            self.encoder.check_streamed(segment, is_last=is_last_audio)
        self._shorten()
        self._require_room(len(segment.ids), "a segment")
        if message.role == "system":
            self.sequence.feed(self.encoder.encode_system(segment))
            self.system_len = len(self.sequence)
        else:
            self.sequence.feed(self.encoder.encode_streamed(segment, is_last=is_last_audio))
            self._is_new_turn = False
        self.window.register(message.role, len(segment.ids))
        self._shorten()
        return segment

    def generate(
        self,
        *,
        max_new_tokens: int = 256,
        use_tts_template: bool = True,
        generate_audio: bool = True,
        adjust_logits: AdjustLogits | None = None,
    ) -> Iterator[AnswerChunk]:
        """Answer. The turn ends when the iterator ends or is closed; ids fed until then stay in the context.

        A spoken answer yields whenever audio is ready, with all text that became certain since; a text-only answer
        yields every ten tokens.
        """
        if generate_audio and (self._voice is None or self._model.talker is None):
            raise ConfigError("a spoken answer needs the speech stages and a voice; or generate_audio off")
        special = self._model.tokenizer.special
        prefix = self._model.tokenizer.encode(ANSWER_START + (SPOKEN_START if use_tts_template else ""))
        self._require_room(len(prefix) + max_new_tokens, "an answer")
        hidden = self.sequence.feed_ids(prefix)
        chunks = TextChunks(
            self.sequence,
            hidden[-1],
            sampling=self._options.sampling,
            noise=self._noise,
            # Never fed, so the next turn's markup has to close the answer.
            stop_ids=(special.tts_eos, special.im_end, special.slash_s),
            forbidden_ids=self._forbidden_ids,
            max_new_tokens=max_new_tokens,
            adjust_logits=adjust_logits,
        )
        self.ids, self.spoken = [], []
        try:
            yield from self._speak(chunks) if generate_audio else self._write(chunks)
        finally:
            self._end_turn(is_registered=generate_audio)

    def _write(self, chunks: TextChunks) -> Iterator[AnswerChunk]:
        detokenizer = Detokenizer(self._model.tokenizer)
        for chunk, is_last in self._pieces(chunks):
            text = "".join(map(detokenizer.push, chunk.ids))
            if is_last:
                text += detokenizer.finish()
            yield AnswerChunk(text, None, chunk.is_final)

    def _speak(self, chunks: TextChunks) -> Iterator[AnswerChunk]:
        talker, voice = self._model.talker, self._voice
        assert talker is not None
        assert voice is not None
        stream = TalkerStream(
            talker, self._noise, sampling=self._options.talker_sampling, max_codes=self._options.max_codes
        )
        detokenizer = Detokenizer(self._model.tokenizer)
        text, is_final = "", False
        last_codes: tuple[int, ...] = ()
        for chunk, _ in self._pieces(chunks):
            text += "".join(map(detokenizer.push, chunk.ids))
            is_final = chunk.is_final
            rows = condition_rows(talker, chunk.ids, chunk.hidden.unbind())
            self.spoken.append(SpokenPiece(rows, is_final))
            for block in stream.speak(rows, is_last_text=is_final):
                if block.is_final:
                    last_codes = block.codes
                    continue
                waveform = voice.push(block.codes, first=False, end_of_turn=False)
                if len(waveform):
                    yield AnswerChunk(text, waveform, is_final=False)
                    text = ""
        # Codes that a limit left in the talker's buffer are spoken here: no block ever delivers them.
        rest = last_codes or stream.take_buffered()
        yield AnswerChunk(text + detokenizer.finish(), voice.push(rest, first=False, end_of_turn=True), is_final)

    def _pieces(self, chunks: TextChunks) -> Iterator[tuple[TextChunk, bool]]:
        """The answer's pieces of text, each with whether it is the last one, for whatever reason."""
        is_last = False
        while not is_last:
            chunk = chunks.next_chunk()
            self.ids += chunk.ids
            is_last = chunks.is_finished
            yield chunk, is_last

    def _end_turn(self, *, is_registered: bool) -> None:
        if is_registered:
            assert self._voice is not None
            self._voice.reset()
            text = self._model.tokenizer.decode(self.ids, skip_special=True)
            self.window.register("assistant", len(self._model.tokenizer.encode_plain(text)))
        self.encoder.end_turn()
        self._is_new_turn = self._has_answered = True

    def _user_prefix(self) -> str:
        if not self._is_new_turn:
            return ""
        # The reference never marks an answer as complete, so each is closed as if it had been interrupted.
        return ANSWER_CUT_END + USER_START if self._has_answered else USER_START

    def _shorten(self) -> None:
        length = len(self.sequence)
        num_rows = min(self.window.drop(length), length - self.system_len)
        if num_rows > 0:
            tail = (self.system_len + num_rows, length)
            apply_cut(self.sequence, Cut((0, self.system_len), (), tail, length - num_rows, ()))

    def _require_room(self, num_rows: int, what: str) -> None:
        length, limit = len(self.sequence), self._model.config.llm.max_positions
        if length + num_rows > limit:
            raise ContextLengthError(
                f"simplex: {what} needs {num_rows} positions, {limit - length} of {limit} are left; start a new session"
            )
