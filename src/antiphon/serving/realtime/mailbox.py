"""What may happen to a live session, one type each, and the bounded door through which frames come."""

import asyncio
from dataclasses import dataclass

from antiphon.realtime.engine import EngineOutput
from antiphon.realtime.outbox import Outbox
from antiphon.realtime.resume import ResumeRequest

MAX_WAITING_BYTES = 32 * 2**20
MAX_WAITING_FRAMES = 256


class Attachment:
    """One socket's way out: its outbox, and the events that steer its pump. `generation` is set when attached.

    `is_quiet` is cleared while a thread works on the session, which may write to the outbox.
    """

    def __init__(self, outbox: Outbox) -> None:
        self.outbox = outbox
        self.generation = 0
        self.is_over = False  # the socket is gone, its pump has to end
        self.has_work = asyncio.Event()
        self.is_quiet = asyncio.Event()
        self.is_quiet.set()

    async def get(self) -> bytes | None:
        """The next frame to send; None if none waits."""
        await self.is_quiet.wait()
        return self.outbox.get()


@dataclass(frozen=True)
class Frame:
    """A frame as it came. None: a binary one, which no event is."""

    text: str | None
    generation: int


@dataclass(frozen=True)
class FromEngine:
    output: EngineOutput


@dataclass(frozen=True)
class Attach:
    """A resume. The future gets None, or the refusal."""

    request: ResumeRequest
    attachment: Attachment
    done: "asyncio.Future[None]"


@dataclass(frozen=True)
class Detach:
    generation: int


@dataclass(frozen=True)
class Tick:
    pass


@dataclass(frozen=True)
class End:
    reason: str


@dataclass(frozen=True)
class GoingAway:
    """The server drains; the client is told how long it has."""

    seconds_left: float


Message = Frame | FromEngine | Attach | Detach | Tick | End | GoingAway


class Mailbox:
    """First in, first out. Frames wait outside while too many are in; nothing else ever waits."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Message] = asyncio.Queue()
        self._num_bytes = 0
        self._num_frames = 0
        self._has_room = asyncio.Event()
        self._has_room.set()

    def put(self, message: Message) -> None:
        self._queue.put_nowait(message)

    async def put_frame(self, frame: Frame) -> None:
        """Waits for room: the socket is not read meanwhile, so the client's TCP feels it."""
        await self._has_room.wait()
        self._num_frames += 1
        self._num_bytes += _size(frame)
        self._measure()
        self._queue.put_nowait(frame)

    async def get(self) -> Message:
        return self._taken(await self._queue.get())

    def get_nowait(self) -> Message | None:
        """None if it is empty."""
        return None if self._queue.empty() else self._taken(self._queue.get_nowait())

    def _taken(self, message: Message) -> Message:
        if isinstance(message, Frame):
            self._num_frames -= 1
            self._num_bytes -= _size(message)
            self._measure()
        return message

    def _measure(self) -> None:
        if self._num_bytes < MAX_WAITING_BYTES and self._num_frames < MAX_WAITING_FRAMES:
            self._has_room.set()
        else:
            self._has_room.clear()


def _size(frame: Frame) -> int:
    return 0 if frame.text is None else len(frame.text)
