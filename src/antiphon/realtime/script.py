"""A scripted model: which units it answers, with which text and how much speech, and when. For clients and tests.

A loud unit is heard, and listened to. The first unit after it that is quiet, or ends the user's turn, begins the next
answer. What comes back of a unit is given with delays, so that no clock is needed here.
"""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import msgspec
import numpy as np
import yaml
from numpy.typing import NDArray

from antiphon.core.errors import ConfigError
from antiphon.realtime.engine import Decided, EngineFailed, EngineOutput, Speech, Unit, UnitDone, UnitFailed
from antiphon.realtime.limits import SPEECH_RATE_HZ
from antiphon.realtime.speech_verdict import root_mean_square

_TONE_HZ = 440
_CODEC_FRAME_MS = 40
_INPUT_TOKENS = 13  # of a unit that is listened to


class Piece(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Text, and the speech that says it."""

    text: str
    audio_ms: int = 1000


class Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One answer. `pieces_per_unit` 0 gives all of it for one unit; else further units are needed, as with a model."""

    pieces: tuple[Piece, ...]
    pieces_per_unit: int = 0
    ends: bool = True  # false: the turn stays open until it is forced to listen
    fails: str | None = None  # this error code instead of the end
    dies: bool = False  # the engine gives the session up instead


class Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A whole script. Answers are given in turn; the last one is repeated."""

    answers: tuple[Answer, ...]
    decide_ms: float = 10.0
    first_ms: float = 40.0  # to the first piece of a unit
    gap_ms: float = 40.0  # between pieces
    loud_rms: float = 0.003
    stall_ms: float = 0.0  # added to every unit: an engine that falls behind
    max_sessions: int = 4  # at once; further ones are refused


DEFAULT_SCRIPT = Script(
    answers=(Answer(pieces=(Piece("This "), Piece("is a "), Piece("scripted "), Piece("answer."))),),
)


def load_script(path: Path) -> Script:
    """Read a script from YAML. Raises ConfigError that names the field."""
    try:
        script = msgspec.convert(yaml.safe_load(path.read_text("utf-8")), Script)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not valid YAML") from error
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {error}") from error
    if not script.answers:
        raise ConfigError(f"{path}: answers must hold at least one answer")
    return script


@dataclass(frozen=True)
class Due:
    """An output, and the seconds after its unit's arrival at which it comes."""

    after_s: float
    output: EngineOutput


class ScriptedRun:
    """One session of a scripted model."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._next_answer = 0
        self._has_heard = False
        self._left: Answer | None = None  # of an answer that is being given

    def seed(self) -> None:
        """A text opened the conversation: it is answered like something that was heard."""
        self._has_heard = True

    def cancel(self) -> None:
        """The answer is cut off."""
        self._left = None
        self._has_heard = False

    def unit(self, unit: Unit) -> list[Due]:
        """What the model makes of *unit*."""
        script = self._script
        is_loud = root_mean_square(unit.samples) >= script.loud_rms
        if unit.force_listen:
            was_open, self._left = self._left is not None, None
            self._has_heard |= is_loud
            return self._listen(unit, end_of_turn=was_open)
        if self._left is None:
            self._has_heard |= is_loud
            if not self._has_heard or (is_loud and not unit.is_final):
                return self._listen(unit, end_of_turn=False)
            self._has_heard = False
            self._left = script.answers[min(self._next_answer, len(script.answers) - 1)]
            self._next_answer += 1
        return self._speak(unit, self._left)

    def _listen(self, unit: Unit, *, end_of_turn: bool) -> list[Due]:
        at = (self._script.stall_ms + self._script.decide_ms) / 1000
        done = UnitDone(epoch=unit.epoch, number=unit.number, end_of_turn=end_of_turn, num_input_tokens=_INPUT_TOKENS)
        return [Due(at, Decided(unit.epoch, unit.number, False)), Due(at, done)]

    def _speak(self, unit: Unit, answer: Answer) -> list[Due]:
        script = self._script
        count = answer.pieces_per_unit or len(answer.pieces)
        pieces, rest = answer.pieces[:count], answer.pieces[count:]
        at = script.stall_ms + script.decide_ms
        due = [Due(at / 1000, Decided(unit.epoch, unit.number, True))]
        at += script.first_ms
        for index, piece in enumerate(pieces):
            at += script.gap_ms if index else 0
            due.append(Due(at / 1000, Speech(unit.epoch, unit.number, tone(piece.audio_ms), piece.text)))
        if not rest and answer.dies:
            return [*due, Due(at / 1000, EngineFailed("engine_error", "as the script says"))]
        is_last = not rest and answer.ends
        if not rest and answer.fails is not None:
            self._left = None
            return [*due, Due(at / 1000, UnitFailed(unit.epoch, unit.number, answer.fails, "as the script says"))]
        self._left = None if is_last else msgspec.structs.replace(answer, pieces=rest or answer.pieces[-1:])
        done = UnitDone(
            epoch=unit.epoch,
            number=unit.number,
            end_of_turn=is_last,
            num_input_tokens=_INPUT_TOKENS,
            num_text_tokens=sum(len(piece.text.split()) for piece in pieces),
            num_codec_frames=sum(piece.audio_ms for piece in pieces) // _CODEC_FRAME_MS,
            time_to_first_text_s=due[0].after_s,
            time_to_first_audio_s=(script.stall_ms + script.decide_ms + script.first_ms) / 1000,
            thinker_s=script.decide_ms / 1000,
            talker_s=script.first_ms / 1000,
            code2wav_s=script.gap_ms * (len(pieces) - 1) / 1000,
        )
        return [*due, Due(at / 1000, done)]


@lru_cache(maxsize=16)
def tone(duration_ms: int, rate_hz: int = SPEECH_RATE_HZ, amplitude: float = 0.3) -> NDArray[np.float32]:
    """A sine wave, float32 [N], to be read only: callers share it."""
    time = np.arange(duration_ms * rate_hz // 1000) / rate_hz
    wave: NDArray[np.float32] = (amplitude * np.sin(2 * np.pi * _TONE_HZ * time)).astype(np.float32)
    wave.flags.writeable = False
    return wave


def text_only(script: Script) -> Script:
    """*script* without its speech, for sessions that want text."""
    answers = tuple(
        msgspec.structs.replace(
            answer, pieces=tuple(msgspec.structs.replace(piece, audio_ms=0) for piece in answer.pieces)
        )
        for answer in script.answers
    )
    return msgspec.structs.replace(script, answers=answers)
