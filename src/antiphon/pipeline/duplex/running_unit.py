"""One unit on its way through the stages: what of it has come, when it may be said, and when it is over."""

import numpy as np
from numpy.typing import NDArray

from antiphon.pipeline.duplex.session import InputUnit, UnitFinished
from antiphon.pipeline.messages import UnitDrawn, UnitVoiced, UnitWritten

UNIT_S = 1.0
_NO_SAMPLES = np.zeros(0, np.float32)


class RunningUnit:
    """Collects a unit's outputs. Text is said together with its speech, so that both stay aligned.

    Args:
        unit: what came.
        arrived_s: when.
        speaks: whether its session has a voice.
    """

    def __init__(self, unit: InputUnit, arrived_s: float, *, speaks: bool) -> None:
        self.unit, self._arrived_s, self._speaks = unit, arrived_s, speaks
        self._written: UnitWritten | None = None
        self._drawn: UnitDrawn | None = None
        self._voiced: UnitVoiced | None = None
        self._text = ""
        self._decision_s = 0.0
        self._text_s: float | None = None
        self._audio_s: float | None = None
        self._is_said = False

    @property
    def deadline_s(self) -> float:
        """A unit has its own second: the next one has come by then."""
        return self._arrived_s + UNIT_S

    def decide(self, now_s: float) -> None:
        self._decision_s = now_s - self._arrived_s

    def age_s(self, now_s: float) -> float:
        """For how long it has been under way."""
        return now_s - self._arrived_s

    def write(self, message: UnitWritten, text: str, now_s: float) -> None:
        self._written, self._text = message, text
        if text:
            self._text_s = now_s - self._arrived_s

    def draw(self, message: UnitDrawn) -> None:
        self._drawn = message

    def voice(self, message: UnitVoiced, now_s: float) -> None:
        self._voiced = message
        if len(message.samples):
            self._audio_s = now_s - self._arrived_s

    @property
    def is_sayable(self) -> bool:
        """Whether there is something to say now that was not said yet."""
        if self._is_said or self._written is None or self._written.is_listen:
            return False
        if not self._speaks:
            return bool(self._text)
        return self._voiced is not None and bool(self._text or len(self._voiced.samples))

    @property
    def is_complete(self) -> bool:
        if self._written is None:
            return False
        # Of workers of their own, the stages' messages come in any order.
        has_spoken = self._drawn is not None and self._voiced is not None
        return self._written.is_listen or not self._speaks or has_spoken

    def say(self) -> tuple[str, NDArray[np.float32]]:
        """The text and the speech of the unit, once."""
        self._is_said = True
        return self._text, _NO_SAMPLES if self._voiced is None else self._voiced.samples

    def finish(self, now_s: float) -> UnitFinished:
        """The last word."""
        written = self._written
        assert written is not None
        drawn, voiced = self._drawn, self._voiced
        return UnitFinished(
            epoch=self.unit.epoch,
            number=self.unit.number,
            is_listen=written.is_listen,
            end_of_turn=written.ends_turn or written.closed_turn,
            num_input_tokens=written.num_input_tokens,
            num_text_tokens=len(written.ids),
            num_codec_frames=0 if drawn is None else len(drawn.codes),
            context_tokens=written.context_tokens,
            has_rebuilt_talker=drawn is not None and drawn.has_rolled_over,
            decision_s=self._decision_s,
            text_s=self._text_s,
            audio_s=self._audio_s,
            thinker_s=written.thinker_s,
            talker_s=0.0 if drawn is None else drawn.talker_s,
            code2wav_s=0.0 if voiced is None else voiced.code2wav_s,
            unit_s=self.age_s(now_s),
            late_s=max(0.0, now_s - self.deadline_s),
        )
