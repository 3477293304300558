"""A full-duplex session at batch 1: one unit a second goes in, the model decides, a second of speech comes out.

Specification, section 5. What upstream does is the rule here, its oddities included; `DuplexRules` names its variants.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon.audio.mel import offline_mels
from antiphon.core.errors import ConfigError, ContextLengthError, PromptError
from antiphon.engine.context_window import ContextWindow, Unit
from antiphon.engine.noise import NoiseSource
from antiphon.engine.talker_sampling import TalkerSampling
from antiphon.pipeline.eager.duplex_decider import Decided, UnitDecider
from antiphon.pipeline.eager.duplex_input import UnitEncoder, UnitInput, fed_items, feed_groups
from antiphon.pipeline.eager.duplex_options import DuplexOptions, LogitsBias
from antiphon.pipeline.eager.duplex_results import PrefillResult, UnitEnd, UnitResult, UnitSpeech
from antiphon.pipeline.eager.duplex_speech import UNIT_SAMPLES_24K, UnitSpeaker
from antiphon.pipeline.eager.duplex_window import apply_cut
from antiphon.pipeline.eager.thinker import ThinkerSequence
from antiphon.pipeline.eager.voice_output import Voice
from antiphon.pipeline.omni_model import OmniModel
from antiphon.prompt.duplex_markup import DEFAULT_INSTRUCTIONS, session_start


class DuplexSession:
    """One conversation. `prepare` once, then per unit `prefill`, `generate` and, where rules defer it, `finish_unit`.

    Args:
        model: the loaded model.
        options: session arguments.
        noise: chance for the decisions and the talker, one stream in the order they draw.
        talker_noise: chance for the talker alone, as the engine has it; None: it shares *noise*.
        voice: the voice to speak with; None where `generate_audio` is off.
        talker_sampling: None for the defaults.
        sequence: the Thinker sequence to fill; None for a new one.
        logits_bias: see `LogitsBias`; None leaves the logits alone.
    """

    def __init__(
        self,
        model: OmniModel,
        options: DuplexOptions,
        *,
        noise: NoiseSource,
        talker_noise: NoiseSource | None = None,
        voice: Voice | None = None,
        talker_sampling: TalkerSampling | None = None,
        sequence: ThinkerSequence | None = None,
        logits_bias: LogitsBias | None = None,
    ) -> None:
        self.options = options
        self.sequence = sequence if sequence is not None else ThinkerSequence(model.thinker)
        self.window = _make_window(model, options)
        self.encoder = UnitEncoder(model)
        self.decider = UnitDecider(self.sequence, model.tokenizer, options, noise, logits_bias)
        self.speaker: UnitSpeaker | None = None
        if options.generate_audio:
            if model.talker is None or voice is None:
                raise ConfigError(
                    "a duplex session that speaks needs the speech stages and a voice; or generate_audio off"
                )
            self.speaker = UnitSpeaker(
                model.talker,
                voice,
                noise if talker_noise is None else talker_noise,
                sampling=talker_sampling,
                always_flushes=options.rules.always_flushes,
            )
        self.num_media_units = 0  # units with audio or frames that could be fed
        self._model = model
        self._num_generated = 0
        self._pending_hidden: Tensor | None = None
        self._kind = ""
        self._unit_start = 0
        self._num_finished = 0
        self._num_orphans = 0
        self._open: tuple[Decided, bool] | None = None  # decided, its terminator fed or not, `</unit>` not fed

    @property
    def pending_logits(self) -> Tensor | None:
        """Raw logits [vocab] that the next decision starts from; None when no unit waits for `generate`."""
        return None if self._pending_hidden is None else self._model.thinker.logits(self._pending_hidden)

    @property
    def pending_hidden(self) -> Tensor | None:
        """Final-norm row [hidden] behind `pending_logits`."""
        return self._pending_hidden

    @property
    def is_turn_open(self) -> bool:
        return self.decider.is_turn_open

    def prepare(
        self,
        instructions: str = DEFAULT_INSTRUCTIONS,
        reference_audio: NDArray[np.float32] | None = None,
        *,
        first_text: str | None = None,
    ) -> None:
        """Feed the system message: its text, the reference voice [N] (mono 16 kHz) as embeddings, and its end.

        *first_text*: a typed message that the conversation begins with.
        """
        if len(self.sequence) > 0:
            raise PromptError("this duplex session is prepared already; make a new one")
        markup = session_start(
            self._model.tokenizer, instructions, has_reference=reference_audio is not None, first_text=first_text
        )
        reference: list[Tensor] = []
        if reference_audio is not None:
            mels = offline_mels(reference_audio, num_bins=self._model.config.audio.num_mel_bins)
            reference = self._model.thinker.encode_audio([torch.from_numpy(mel).to(self._model.device) for mel in mels])
        num_rows = len(markup.prefix) + sum(map(len, reference)) + len(markup.suffix)
        self._require_room(num_rows, "the system prompt")
        self._feed_prompt(markup.prefix)
        if reference:
            self.sequence.feed(torch.cat(reference))
        prefix_len = len(self.sequence)
        self._feed_prompt(markup.suffix)
        self.window.begin(prefix_len, tuple(markup.suffix))

    def prefill(self, unit: UnitInput) -> PrefillResult:
        """Feed what a unit brings. Without enough audio only `<unit>` is fed, and stays in the context for good.

        Raises:
            ContextLengthError: the unit and its longest answer exceed the model's positions; nothing was fed.
        """
        if len(self.sequence) == 0:
            raise PromptError("call prepare before the first unit")
        if self._pending_hidden is not None or self._open is not None:
            raise PromptError("the unit before this one is not finished; call generate and finish_unit first")
        if unit.audio is None and not unit.frames and not unit.text:
            raise PromptError("a unit needs audio, frames or text")
        samples = None if unit.audio is None else self.encoder.take_audio(unit.audio)
        if isinstance(samples, str):
            self._require_room(1, "a unit")
            unit_start = self._model.tokenizer.special.unit_start
            self.sequence.feed_ids([unit_start])
            self._num_orphans += 1
            return PrefillResult(False, samples, (unit_start,))
        rows = self.encoder.encode(unit, samples)
        # The decision may take max_tokens with its terminator, a forced turn_eos and `</unit>` after it.
        self._require_room(sum(map(len, rows)) + self.options.max_tokens + 2, "a unit and its answer")
        self._unit_start, self._kind = len(self.sequence), unit.kind
        for embeds in feed_groups(rows, batches_vision=self.options.batches_vision):
            self._pending_hidden = self.sequence.feed(embeds)[-1]
        self.num_media_units += unit.kind != "text"
        return PrefillResult(True, "", fed_items(rows))

    def generate(self, *, force_listen: bool = False) -> UnitResult:
        """Decide on the unit that was prefilled and speak it.

        *force_listen* makes this unit listen, and closes an open turn for it. A call without a prefilled unit (its
        audio was too short) listens, feeds nothing and counts as a call.
        """
        logits, self._pending_hidden = self.pending_logits, None
        index = self._num_generated
        self._num_generated += 1
        if logits is None:
            return self._nothing_decided()
        if force_listen or index < self.options.force_listen_count:
            was_open = self.is_turn_open
            decided = self.decider.listen()
            if was_open and self.speaker is not None:
                self.speaker.reset_voice()
        else:
            decided = self.decider.decide(logits, unit=index)
        is_deferred = self.options.rules.defers_end
        if not is_deferred:
            self.sequence.feed_ids([decided.terminator])
        self._open = (decided, is_deferred)
        is_listen = decided.terminator == self._model.tokenizer.special.listen
        # A unit that ends by listening says nothing: even ids in front of a turn_eos are lost, and no state is reset.
        speech = None if is_listen else self._speak(decided)
        return UnitResult(
            is_listen=is_listen,
            text="" if is_listen else self._text(decided),
            ids=tuple(decided.collected),
            decided_ids=tuple(decided.fed),
            terminator=decided.terminator,
            end_of_turn=decided.end_of_turn and not is_listen,
            speech=speech,
            waveform=self._waveform(speech, is_listen),
            end=None if is_deferred else self.finish_unit(),
        )

    def finish_unit(self) -> UnitEnd | None:
        """Close the unit that was generated and shorten the context if the window says so; None if none is open."""
        if self._open is None:
            return None
        (decided, has_terminator_left), self._open = self._open, None
        special = self._model.tokenizer.special
        ids = (decided.terminator, special.unit_end) if has_terminator_left else (special.unit_end,)
        self.sequence.feed_ids(ids)
        is_listen = decided.terminator == special.listen
        unit = Unit(
            id=self._num_finished,
            length=len(self.sequence) - self._unit_start,
            kind=self._kind,
            is_listen=is_listen,
            content_ids=tuple(decided.collected),
            text="" if is_listen else self._text(decided),
            num_orphans=self._num_orphans,
        )
        self._num_orphans = 0
        self._num_finished += 1
        cut = self.window.add(unit, len(self.sequence))
        if cut is not None:
            apply_cut(self.sequence, cut)
        return UnitEnd(fed_ids=ids, cut=cut)

    def _speak(self, decided: Decided) -> UnitSpeech | None:
        if self.speaker is None:
            return None
        return self.speaker.speak(decided.collected, decided.hidden, end_of_turn=decided.end_of_turn)

    def _waveform(self, speech: UnitSpeech | None, is_listen: bool) -> Tensor | None:
        if speech is not None:
            return speech.waveform
        return self._silence() if is_listen or self.options.rules.fills_muted else None

    def _silence(self) -> Tensor:
        return torch.zeros(UNIT_SAMPLES_24K, device=self._model.device)

    def _text(self, decided: Decided) -> str:
        return self._model.tokenizer.decode(decided.collected, skip_special=True)

    def _nothing_decided(self) -> UnitResult:
        return UnitResult(
            is_listen=True,
            text="",
            ids=(),
            decided_ids=(),
            terminator=None,
            end_of_turn=False,
            speech=None,
            waveform=self._silence(),
            end=None,
        )

    def _feed_prompt(self, ids: list[int]) -> None:
        if self.options.rules.batches_prompt:
            self.sequence.feed_ids(ids)
            return
        for token_id in ids:
            self.sequence.feed_ids([token_id])

    def _require_room(self, num_rows: int, what: str) -> None:
        length, limit = len(self.sequence), self._model.config.llm.max_positions
        if length + num_rows > limit:
            raise ContextLengthError(
                f"duplex: {what} needs {num_rows} positions, {limit - length} of {limit} are left; "
                "end the session or choose a context window"
            )


def _make_window(model: OmniModel, options: DuplexOptions) -> ContextWindow:
    marker_ids = tuple(model.tokenizer.encode_plain(options.previous_marker))
    return ContextWindow(options.window, marker_ids=marker_ids, special_ids=model.tokenizer.special_ids)
