"""What the device loop drives: one stage with its queue, its device work and its outputs."""

from collections.abc import Callable, Sequence
from typing import Protocol

from antiphon.pipeline.messages import StageOutput, StagePiece, StageRequest

Report = Callable[[str], None]

# Which stage goes first when several could launch. Between streams of one device the CUDA priorities say the same.
FIRST_CHUNK, DRAW_CODES, NEXT_CHUNK, WRITE_TEXT = range(4)
Urgency = tuple[int, float]  # a class from above, then the earliest deadline in it, in seconds


class Stage(Protocol):
    """One of the three stages on one device. Called by the loop's thread only, and never blocks on the device.

    `admit` and `extend` may raise for the one request they concern; the loop then ends that request. An id that is
    unknown (aborted, ended, never admitted) is ignored by all but `admit`.
    """

    @property
    def name(self) -> str: ...

    @property
    def is_busy(self) -> bool:
        """Whether device work is in flight, so that `collect` will have something before anyone says so."""
        ...

    def admit(self, request: StageRequest) -> None:
        """Take a new request."""
        ...

    def extend(self, piece: StagePiece) -> None:
        """More input of an admitted request."""
        ...

    def close_input(self, request_id: str) -> None:
        """No more input will come."""
        ...

    def abort(self, request_id: str) -> None:
        """Forget a request and give back all it holds."""
        ...

    def urgency(self) -> Urgency:
        """Smaller goes first."""
        ...

    def launch(self) -> bool:
        """Start what can be started now; whether anything was."""
        ...

    def collect(self) -> Sequence[StageOutput]:
        """What has finished since the last call."""
        ...

    def warm_up(self, report: Report) -> None:
        """Capture and compute everything that the first request must not wait for."""
        ...

    def snapshot(self) -> dict[str, float]:
        """Gauges: blocks, slots, queue depths."""
        ...
