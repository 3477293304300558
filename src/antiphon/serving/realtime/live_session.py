"""A session that lives: one mailbox, one task that alone touches it, one timer, and the sockets' outboxes."""

import asyncio
import logging
from collections.abc import Callable

from antiphon.realtime.engine import EngineOutput, EngineSession
from antiphon.realtime.session import Session
from antiphon.serving.realtime.mailbox import (
    Attach,
    Attachment,
    Detach,
    Frame,
    FromEngine,
    GoingAway,
    Mailbox,
    Message,
    Tick,
)
from antiphon.wire.realtime.errors import RealtimeError

logger = logging.getLogger(__name__)

_OFF_LOOP_CHARS = 256 * 1024  # frames from this size on are decoded on a thread
_NOT_AN_EVENT = "events are text frames"


class LiveSession:
    """Drives a `Session`. Everything that happens to it goes through the mailbox, in order."""

    def __init__(self, session: Session, on_over: Callable[["LiveSession"], None]) -> None:
        self.session = session
        self.mailbox = Mailbox()
        self._on_over = on_over
        self._engine: EngineSession | None = None
        self._attachments: list[Attachment] = []
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def deliver(self, output: EngineOutput) -> None:
        """Where the engine puts its outputs. Safe from any thread."""
        self._loop.call_soon_threadsafe(self.mailbox.put, FromEngine(output))

    def start(self, engine: EngineSession, attachment: Attachment, *, announces_update: bool) -> None:
        """The engine has opened the session."""
        self._engine = engine
        self._attachments.append(attachment)
        self.session.opened(attachment.outbox, self._loop.time(), announces_update=announces_update)
        attachment.generation = self.session.generation
        self._flush()
        self._task = asyncio.create_task(self._run(), name=f"session {self.session.id}")

    async def attach(self, message: Attach) -> None:
        """Raises RealtimeError when the session refuses."""
        self.mailbox.put(message)
        await message.done

    def forget(self, attachment: Attachment) -> None:
        """Its socket is gone."""
        if attachment in self._attachments:
            self._attachments.remove(attachment)

    async def wait_over(self) -> None:
        if self._task is not None:
            await asyncio.shield(self._task)

    async def _run(self) -> None:
        try:
            while not self.session.is_over:
                await self._step(await self.mailbox.get())
                self._flush()
        finally:
            if self._timer is not None:
                self._timer.cancel()
            self._refuse_waiting()
            self._on_over(self)

    async def _step(self, message: Message) -> None:
        try:
            await self._do(message)
        except Exception:
            # The session's own mistake ends this session; whoever sits in the next one must not notice.
            logger.exception("session %s failed", self.session.id)
            error = RealtimeError("realtime_input_failed", "the server failed to process an event")
            self.session.refuse(error, self._loop.time())
            self.session.end("transport_error")

    async def _do(self, message: Message) -> None:
        session, now_s = self.session, self._loop.time()
        if isinstance(message, FromEngine):
            session.handle(message.output, now_s)
        elif isinstance(message, Frame):
            await self._receive(message)
        elif isinstance(message, Tick):
            session.tick(now_s)
        elif isinstance(message, Detach):
            session.detach(message.generation, now_s)
        elif isinstance(message, Attach):
            self._attach(message)
        elif isinstance(message, GoingAway):
            session.warn_going_away(message.seconds_left, now_s)
        else:
            session.end(message.reason)

    async def _receive(self, frame: Frame) -> None:
        if frame.generation != self.session.generation:
            return  # of a socket that was replaced
        if frame.text is None:
            self.session.refuse(RealtimeError("invalid_json", _NOT_AN_EVENT), self._loop.time())
        elif len(frame.text) < _OFF_LOOP_CHARS:
            self._take_in(frame.text)
        else:
            await self._take_in_on_thread(frame.text)

    async def _take_in_on_thread(self, text: str) -> None:
        """Decoding a long clip takes longer than the other sessions' sockets may wait."""
        for attachment in self._attachments:
            attachment.is_quiet.clear()
        try:
            await asyncio.to_thread(self._take_in, text)
        finally:
            for attachment in self._attachments:
                attachment.is_quiet.set()

    def _take_in(self, text: str) -> None:
        self.session.receive_frame(text, self._loop.time())

    def _attach(self, message: Attach) -> None:
        if message.done.done():
            return  # whoever asked went away
        try:
            self.session.attach(message.request, message.attachment.outbox, self._loop.time())
        except RealtimeError as error:
            message.done.set_exception(error)
            return
        message.attachment.generation = self.session.generation
        self._attachments.append(message.attachment)
        message.done.set_result(None)

    def _refuse_waiting(self) -> None:
        """Resumes that came too late."""
        while (message := self.mailbox.get_nowait()) is not None:
            if isinstance(message, Attach) and not message.done.done():
                message.done.set_exception(RealtimeError("session_resume_expired", "the session has ended"))

    def _flush(self) -> None:
        assert self._engine is not None
        for command in self.session.drain_commands():
            self._engine.send(command)
        for attachment in self._attachments:
            if attachment.outbox.has_work:
                attachment.has_work.set()
        self._schedule()

    def _schedule(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        at = self.session.next_wakeup()
        if at is not None:
            self._timer = self._loop.call_at(at, self.mailbox.put, Tick())
