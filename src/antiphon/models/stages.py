"""The three stages as they come from a checkpoint, or made up in its place."""

from collections.abc import Callable
from dataclasses import dataclass

from antiphon.models.code2wav.code2wav import Code2Wav
from antiphon.models.talker.talker import Talker
from antiphon.models.thinker.thinker import Thinker

LoadProgress = Callable[[int, int], None]  # bytes placed so far, bytes in all


STAGE_NAMES = frozenset({"thinker", "talker", "code2wav"})


@dataclass(frozen=True)
class Stages:
    """The three stages with their weights in place; speech parts are None when only text was asked for.

    A process that computes some of them only has the others without memory: shapes on the `meta` device.
    """

    thinker: Thinker
    talker: Talker | None
    code2wav: Code2Wav | None
