"""The parts of scoring that the flags of `antiphon eval` ask for."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from antiphon.cli.eval_scorers import NONE, RECORDED, build_encoder, build_recogniser, check_jiwer
from antiphon.core.errors import ConfigError
from antiphon.evals.items import Output
from antiphon.evals.scoring.cache import ScoreCache
from antiphon.evals.scoring.flow import FlowPart
from antiphon.evals.scoring.scored import Part
from antiphon.evals.scoring.voice import VoicePart


@dataclass(frozen=True, kw_only=True)
class SpeechFlags:
    """How speech is scored, as it was given. *folder* keeps what scorers heard."""

    recogniser: str
    encoder: str
    device: str
    spells_numbers: bool
    threshold_s: float
    folder: Path

    def check(self, languages: set[str]) -> None:
        """Refuse scorers that are not known or not installed."""
        if self.recogniser not in (NONE, RECORDED):
            check_jiwer()
            build_recogniser(self.recogniser, languages, device=self.device)
        if self.encoder != NONE:
            build_encoder(self.encoder)


def speech_parts(outputs: Sequence[Output], flags: SpeechFlags) -> list[Part]:
    """Words, voice and flow, without those that are not wanted."""
    parts: list[Part] = []
    if flags.recogniser != NONE:
        part = word_part(
            outputs,
            flags.recogniser,
            device=flags.device,
            spells_numbers=flags.spells_numbers,
            folder=flags.folder,
        )
        parts.append(part)
    if flags.encoder != NONE:
        parts.append(voice_part(flags.encoder, folder=flags.folder))
    return [*parts, FlowPart(flags.threshold_s)]


def word_part(outputs: Sequence[Output], recogniser: str, *, device: str, spells_numbers: bool, folder: Path) -> Part:
    """The part that counts word errors. Raises ConfigError if it has no recogniser or no package to count with."""
    if recogniser == NONE:
        raise ConfigError("--recogniser none leaves nothing to count")
    check_jiwer()
    from antiphon.evals.scoring.words import WordPart

    languages = {output.truth.language for output in outputs if output.truth.target}
    listener = None if recogniser == RECORDED else build_recogniser(recogniser, languages, device=device)
    return WordPart(listener, ScoreCache(folder), outputs, spells_numbers=spells_numbers)


def voice_part(encoder: str, *, folder: Path) -> Part:
    """The part that compares voices. Raises ConfigError if its encoder is not known or not installed."""
    return VoicePart(build_encoder(encoder), ScoreCache(folder))
