"""The seam between a session and whatever runs the model: units in, decisions and speech out.

A session never waits for the engine: it hands over messages, and takes outputs whenever they come. Each carries the
epoch it was made for; what belongs to an older one is dropped by the session, so an engine may cancel lazily.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from antiphon.realtime.settings import SessionSettings

# --- to the engine


@dataclass(frozen=True, kw_only=True, eq=False)
class Unit:
    """One second of input. `number` counts from 0 in each epoch."""

    epoch: int
    number: int
    samples: NDArray[np.float32]  # [16000], 16 kHz
    frames: tuple[bytes, ...] = ()  # JPEG or PNG: a base frame and perhaps a stacked composite
    force_listen: bool = False
    is_speech: bool = False
    is_final: bool = False  # the user's turn ends with it
    is_silence: bool = False  # made by the server, so that a running response can go on


@dataclass(frozen=True)
class Append:
    unit: Unit


@dataclass(frozen=True)
class Cancel:
    """Drop everything of earlier epochs. Of the speech that was made, `heard_text` is what the user heard."""

    epoch: int
    heard_text: str


@dataclass(frozen=True)
class Reconfigure:
    """The settings from here on; a response that runs keeps those it began with."""

    settings: SessionSettings


@dataclass(frozen=True)
class Close:
    reason: str


EngineCommand = Append | Cancel | Reconfigure | Close

# --- from the engine


@dataclass(frozen=True)
class Decided:
    """The model chose to speak or to listen in a unit. Exactly one for each unit, before its other outputs."""

    epoch: int
    number: int
    speak: bool


@dataclass(frozen=True, eq=False)
class Speech:
    """A piece of speech and the text that it says; either may be empty, not both."""

    epoch: int
    number: int
    samples: NDArray[np.float32]  # [N], 24 kHz
    text: str


@dataclass(frozen=True, kw_only=True)
class UnitDone:
    """A unit is finished. Exactly one for each unit that did not fail, last."""

    epoch: int
    number: int
    end_of_turn: bool
    num_input_tokens: int = 0
    num_text_tokens: int = 0
    num_codec_frames: int = 0
    time_to_first_text_s: float | None = None
    time_to_first_audio_s: float | None = None
    thinker_s: float = 0.0
    talker_s: float = 0.0
    code2wav_s: float = 0.0


@dataclass(frozen=True)
class UnitFailed:
    """A unit cannot be finished; the session goes on with the next turn."""

    epoch: int
    number: int
    code: str
    message: str


@dataclass(frozen=True)
class ContextNotice:
    """Something left the context, or soon will. `code` is that of `session.warning`."""

    code: str
    message: str
    details: dict[str, object]


@dataclass(frozen=True)
class EngineFailed:
    """The engine cannot go on with this session at all."""

    code: str
    message: str


@dataclass(frozen=True)
class EngineClosed:
    """Everything of the session is freed. The last output, after a `Close` or an `EngineFailed`."""


EngineOutput = Decided | Speech | UnitDone | UnitFailed | ContextNotice | EngineFailed | EngineClosed


class EngineSession(Protocol):
    def send(self, command: EngineCommand) -> None:
        """Take *command*. Never blocks, never raises: what goes wrong comes back as an output."""


class DuplexEngine(Protocol):
    """Runs sessions. `deliver` is called on the thread that opened the session, and must not block."""

    @property
    def model(self) -> str:
        """The name that clients know the model by."""

    async def open(
        self, session_id: str, settings: SessionSettings, deliver: Callable[[EngineOutput], None]
    ) -> EngineSession:
        """Begin a session. Raises AntiphonError if it cannot be begun; nothing is held then."""
