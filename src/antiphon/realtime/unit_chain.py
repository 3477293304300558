"""The order in which units reach the engine: one at a time, each after its predecessor."""

from collections import deque
from dataclasses import dataclass, replace

import numpy as np

from antiphon.realtime.engine import Unit
from antiphon.realtime.input_buffer import SAMPLE_BYTES, Second
from antiphon.realtime.limits import UNIT_SAMPLES


@dataclass(frozen=True, eq=False)
class Link:
    """A unit, and whom it serves."""

    unit: Unit
    response_id: str | None = None  # of a response that was opened before the model decided


class UnitChain:
    """Units wait here until the engine has finished the one before. A queued unit may still be called off."""

    def __init__(self) -> None:
        self._waiting: deque[Link] = deque()
        self.in_flight: Link | None = None
        self._number = 0

    def __len__(self) -> int:
        return len(self._waiting) + (self.in_flight is not None)

    @property
    def num_bytes(self) -> int:
        links = [*self._waiting, *([self.in_flight] if self.in_flight else [])]
        return sum(
            UNIT_SAMPLES * SAMPLE_BYTES + sum(map(len, link.unit.frames)) for link in links if not link.unit.is_silence
        )

    @property
    def num_commits(self) -> int:
        """Turns whose last unit the engine has not finished."""
        links = [*self._waiting, *([self.in_flight] if self.in_flight else [])]
        return sum(link.unit.is_final for link in links)

    def push(self, second: Second, *, epoch: int, is_final: bool, force_listen: bool, response_id: str | None) -> None:
        """Queue real input. A silence unit that still waits is called off: real audio always wins."""
        self._waiting = deque(link for link in self._waiting if not link.unit.is_silence)
        unit = Unit(
            epoch=epoch,
            number=0,  # given when it leaves
            samples=second.samples,
            frames=second.frames,
            force_listen=force_listen or second.force_listen,
            is_speech=second.is_speech,
            is_final=is_final,
        )
        self._waiting.append(Link(unit, response_id))

    def push_silence(self, *, epoch: int, force_listen: bool, response_id: str | None) -> None:
        unit = Unit(
            epoch=epoch,
            number=0,
            samples=np.zeros(UNIT_SAMPLES, np.float32),
            force_listen=force_listen,
            is_silence=True,
        )
        self._waiting.append(Link(unit, response_id))

    def next(self) -> Unit | None:
        """The unit to send now: None while one is in flight, or none waits."""
        if self.in_flight is not None or not self._waiting:
            return None
        link = self._waiting.popleft()
        self.in_flight = replace(link, unit=replace(link.unit, number=self._number))
        self._number += 1
        return self.in_flight.unit

    def finish(self, epoch: int, number: int) -> Link | None:
        """The engine has finished this unit; None if it is not the one in flight."""
        link = self.in_flight
        if link is None or (link.unit.epoch, link.unit.number) != (epoch, number):
            return None
        self.in_flight = None
        return link

    def mark_final(self) -> None:
        """The user's turn ended with the newest unit, if that has not left yet."""
        if self._waiting and not self._waiting[-1].unit.is_silence:
            link = self._waiting.pop()
            self._waiting.append(replace(link, unit=replace(link.unit, is_final=True)))

    def drop_committed(self) -> None:
        """Take back the units of turns that have ended; those of the turn under way stay."""
        finals = [index for index, link in enumerate(self._waiting) if link.unit.is_final]
        for _ in range(finals[-1] + 1 if finals else 0):
            self._waiting.popleft()

    def drop_uncommitted(self) -> list[Link]:
        """Take back the units of the turn under way; those of turns that have ended stay."""
        finals = [index for index, link in enumerate(self._waiting) if link.unit.is_final]
        kept = finals[-1] + 1 if finals else 0
        links = list(self._waiting)
        self._waiting = deque(links[:kept])
        return links[kept:]

    def bind(self, response_id: str) -> None:
        """The units of the turn now serve a response that was opened for them."""
        self._waiting = deque(replace(link, response_id=response_id) for link in self._waiting)
        if self.in_flight is not None:
            self.in_flight = replace(self.in_flight, response_id=response_id)

    def drop_waiting(self) -> list[Link]:
        """Take back what has not left."""
        dropped = list(self._waiting)
        self._waiting.clear()
        return dropped

    def start_epoch(self, epoch: int, cancelled: str | None) -> None:
        """Numbers begin anew. Whatever is in flight is of an older epoch and will not be waited for; what waits moves
        to *epoch*, without what was to serve the *cancelled* response."""
        self.in_flight = None
        self._number = 0
        kept = (link for link in self._waiting if not link.unit.is_silence)
        self._waiting = deque(
            replace(link, unit=replace(link.unit, epoch=epoch))
            for link in kept
            if link.response_id is None or link.response_id != cancelled
        )
