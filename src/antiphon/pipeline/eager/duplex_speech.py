"""Voices one duplex unit: condition, talker, code2wav, and the second of audio that is played for it.

Specification, sections 3.3, 4.6 and 5.2.
"""

from collections.abc import Sequence

from torch import Tensor
from torch.nn.functional import pad

from antiphon.engine.noise import NoiseSource
from antiphon.engine.talker_sampling import TalkerSampling
from antiphon.models.talker.talker import Talker
from antiphon.pipeline.eager.duplex_results import UnitSpeech
from antiphon.pipeline.eager.talker import TalkerSequence
from antiphon.pipeline.eager.talker_condition import unit_condition
from antiphon.pipeline.eager.voice_output import Voice

UNIT_SAMPLES_24K = 24_000


class UnitSpeaker:
    """The talker and the voice of one session, both carried from unit to unit of a turn."""

    def __init__(
        self,
        talker: Talker,
        voice: Voice,
        noise: NoiseSource,
        *,
        sampling: TalkerSampling | None,
        always_flushes: bool,
    ) -> None:
        self._voice = voice
        self._talker = talker
        self._sequence = TalkerSequence(talker, noise, sampling=sampling)
        self._always_flushes = always_flushes

    @property
    def position(self) -> int:
        """The talker's next position; 0 at the start of a turn."""
        return self._sequence.position

    def speak(self, ids: Sequence[int], hidden: Sequence[Tensor], *, end_of_turn: bool) -> UnitSpeech:
        """Speak collected *ids* with their hidden rows. After *end_of_turn* talker and voice start afresh."""
        condition = unit_condition(self._talker, ids, hidden)
        start = self.position
        is_first = start == 0
        spoken = self._sequence.speak_unit(condition, ends_turn=end_of_turn)
        waveform = self._voice.push(spoken.codes, first=is_first or self._always_flushes, end_of_turn=end_of_turn)
        # The first unit of a turn holds back its cross-fade. Zeros go in front, so that playback stays without a gap.
        if not end_of_turn:
            waveform = pad(waveform, (max(0, UNIT_SAMPLES_24K - len(waveform)), 0))
        draws = TalkerSequence.UNIT_DRAWS
        return UnitSpeech(
            condition=condition,
            start=start,
            min_codes=0 if is_first or end_of_turn else draws,
            max_codes=draws,
            codes=spoken.codes,
            has_rolled_over=spoken.has_rolled_over,
            waveform=waveform,
        )

    def reset_voice(self) -> None:
        """Forget the voice's caches and its waiting codes; the talker goes on (the reference's forced listen)."""
        self._voice.reset()
