"""What the engine knows of each stream, who is voiced next, and how a stream ends. Torch-free."""

from collections import deque
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from antiphon.engine.code2wav_positions import StreamPositions
from antiphon.engine.code_buffer import CodeChunk

SAMPLE_RATE_HZ = 24_000


@dataclass(frozen=True)
class SpeechJob:
    """Opens a stream."""

    stream_id: str
    epoch: int
    voice_key: str
    source_seed: int  # of the excitation's noise
    deadline_s: float  # when the first samples should be there, on the engine's clock


@dataclass(frozen=True)
class SpeechOutput:
    """Samples of one chunk, or a stream's end. Exactly one output of a stream has a finish reason, and it is the last.

    Attributes:
        samples: [N] float32, 24 kHz; N may be 0.
        is_last: the last samples of a turn.
        finish_reason: "stop" (input closed, all voiced), "abort" or "error".
        error: one line about what was wrong.
    """

    stream_id: str
    epoch: int
    samples: NDArray[np.float32]
    is_last: bool = False
    finish_reason: str | None = None
    error: str | None = None


@dataclass(frozen=True)
class SlotLoan:
    """A slot of the capacity class *class_index*."""

    class_index: int
    slot: int


@dataclass(eq=False)  # one object is one stream, whatever its id
class SpeechStream:
    """One stream. Its device state is ahead of its outputs by what is under way."""

    job: SpeechJob
    positions: StreamPositions
    class_index: int
    borrower: str  # unique among all streams ever, unlike the id
    chunks: deque[CodeChunk] = field(default_factory=deque)
    loan: SlotLoan | None = None
    num_under_way: int = 0  # launches not yet collected
    last_launch: int = -1
    is_closed: bool = False  # no more chunks will come
    has_ended: bool = False  # its end has been put out; later outputs are dropped
    at_turn_start: bool = True  # on the device: the next chunk to launch is a turn's first
    expects_first: bool = True  # at the input: the next chunk to push is a turn's first
    source_start: int = 0  # first source sample of the next chunk
    turn_deadline_s: float = 0.0
    play_start_s: float | None = None  # when the turn's first samples were handed over
    sent_samples: int = 0  # launched in this turn
    waits_since_s: float | None = None  # when it wanted a slot; None while it wants none

    @property
    def is_ready(self) -> bool:
        return self.loan is not None and bool(self.chunks)

    @property
    def is_idle(self) -> bool:
        return not self.chunks and self.num_under_way == 0

    @property
    def deadline_s(self) -> float:
        """When the listener runs out of samples; before the turn's first ones, when those should be there."""
        start_s = self.turn_deadline_s if self.play_start_s is None else self.play_start_s
        return start_s + self.sent_samples / SAMPLE_RATE_HZ

    def end_turn(self, deadline_s: float) -> None:
        """The turn's last chunk was launched; the next turn's first one is due at *deadline_s*."""
        self.at_turn_start = True
        self.play_start_s = None
        self.sent_samples = 0
        self.turn_deadline_s = deadline_s


def by_deadline(streams: list[SpeechStream]) -> list[SpeechStream]:
    """Earliest deadline first; equals in the order of their admission."""
    return sorted(streams, key=lambda stream: stream.deadline_s)
