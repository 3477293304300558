"""What a duplex session reports about one unit."""

from dataclasses import dataclass

from torch import Tensor

from antiphon.engine.context_window import Cut

FedItem = int | tuple[str, int]  # a token id, or ("img" | "audio", number of rows)


@dataclass(frozen=True)
class PrefillResult:
    """What was fed of a unit's input. Without success the unit has nothing to decide; `reason` says why."""

    is_success: bool
    reason: str
    fed: tuple[FedItem, ...]


@dataclass(frozen=True, kw_only=True)
class UnitSpeech:
    """One unit of speech and the talker call that made it."""

    condition: Tensor  # [T, talker hidden], audio_bos last
    start: int  # talker position of the condition's first row
    min_codes: int
    max_codes: int
    codes: tuple[int, ...]
    has_rolled_over: bool  # the talker's positions ran out and its context was rebuilt
    waveform: Tensor  # [N] float32, 24 kHz


@dataclass(frozen=True, kw_only=True)
class UnitEnd:
    """How the unit was closed: the ids fed for it, and what left the context afterwards."""

    fed_ids: tuple[int, ...]
    cut: Cut | None


@dataclass(frozen=True, kw_only=True)
class UnitResult:
    """One decided unit.

    `decided_ids` are all ids fed in front of the terminator, `ids` the collected ones: without the unit's first, which
    is neither text nor speech. `end` is None while the closing waits for `finish_unit`, and for a unit without input.
    """

    is_listen: bool
    text: str
    ids: tuple[int, ...]
    decided_ids: tuple[int, ...]
    terminator: int | None  # None: nothing was fed, the input was too short
    end_of_turn: bool
    speech: UnitSpeech | None
    waveform: Tensor | None  # [N] float32, 24 kHz; a second of zeros when listening; None when speaking without audio
    end: UnitEnd | None
