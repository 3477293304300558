"""All live sessions of this process: admission, opening, finding one to resume, draining."""

import asyncio
import time
from collections.abc import Callable

from antiphon.core.errors import AntiphonError
from antiphon.core.ids import IdSource
from antiphon.realtime.admission import Admission
from antiphon.realtime.dialects.dialect import Dialect
from antiphon.realtime.dialects.vllm import VllmDialect
from antiphon.realtime.engine import DuplexEngine
from antiphon.realtime.opening import Opening, opening_settings
from antiphon.realtime.resume import ResumeRequest
from antiphon.realtime.session import Session, opening_error
from antiphon.realtime.session_state import Surroundings
from antiphon.serving.realtime.live_session import LiveSession
from antiphon.serving.realtime.mailbox import Attach, Attachment, End, GoingAway
from antiphon.serving.realtime.settings import RealtimeSettings
from antiphon.serving.realtime.waiting_line import WaitingLine
from antiphon.wire.realtime.errors import RealtimeError


class Hub:
    """Sessions by id. A slot is taken before the engine is asked and given back when the session is over.

    *has_room* as in `Admission`.
    """

    def __init__(
        self,
        engine: DuplexEngine,
        settings: RealtimeSettings,
        ids: IdSource,
        *,
        has_room: Callable[[], bool] = lambda: True,
    ) -> None:
        self.settings = settings
        self._engine = engine
        self._ids = ids
        self.admission = Admission(settings.limits, has_room)
        self.line = WaitingLine(self.admission)
        self._around = Surroundings(
            ids=ids,
            limits=settings.limits,
            scorer_source=settings.scorer_source,
            on_speech_end=settings.on_speech_end,
            unix_s_at_zero=time.time() - time.monotonic(),  # the event loop's clock is the monotonic one
        )
        self._live: dict[str, LiveSession] = {}
        self.is_draining = False
        self.is_warm = asyncio.Event()
        self.is_warm.set()

    @property
    def num_sessions(self) -> int:
        return len(self._live)

    @property
    def num_detecting(self) -> int:
        """Sessions with a voice activity detector."""
        return sum(live.session.state.settings.turn_detection is not None for live in self._live.values())

    async def open(
        self,
        opening: Opening,
        attachment: Attachment,
        *,
        model: str | None,
        announces_update: bool = True,
        dialect: Dialect | None = None,
        reserved: str | None = None,
    ) -> LiveSession:
        """Open a session for the socket of *attachment*. *reserved* is the id of one whose slot is taken already.

        Raises:
            RealtimeError: what is wrong with the settings, `resource_exhausted`, `timeout`, or the engine's refusal.
        """
        self._check_draining()
        dialect = dialect or VllmDialect()
        defaults = dialect.defaults(self.settings.defaults)
        settings = opening_settings(opening, model=model or defaults.model or self._engine.model, defaults=defaults)
        loop = asyncio.get_running_loop()
        session_id = reserved or self.new_session_id()
        if reserved is None:
            self.admission.take(session_id, loop.time())
        try:
            session = Session(session_id, settings, self._around, now_s=loop.time(), dialect=dialect)
            live = LiveSession(session, self._over)
            engine = await asyncio.wait_for(
                self._engine.open(session_id, settings, live.deliver), self.settings.timeouts.control_s
            )
        except asyncio.TimeoutError:
            raise self._refused(session_id, RealtimeError("timeout", "the engine did not open the session")) from None
        except AntiphonError as error:
            raise self._refused(session_id, opening_error(error)) from error
        except BaseException:
            self._give_back(session_id)
            raise
        self._live[session_id] = live
        live.start(engine, attachment, announces_update=announces_update)
        return live

    def new_session_id(self) -> str:
        return f"sess_{self._ids.new_hex(24)}"

    def try_reserve(self, session_id: str) -> bool:
        """Take a slot before the session's settings are known. False: none is free, or others wait for it.

        Raises:
            RealtimeError: `resource_exhausted`, while draining.
        """
        self._check_draining()
        if self.admission.num_waiting:
            return False
        try:
            self.admission.take(session_id, asyncio.get_running_loop().time())
        except RealtimeError:
            return False
        return True

    def leave(self, session_id: str) -> None:
        """Whoever reserved a slot, or stands in line for one, goes. Neither: nothing."""
        self.line.leave(session_id)
        self._give_back(session_id)

    async def resume(self, request: ResumeRequest, attachment: Attachment) -> LiveSession:
        """Give the session to the socket of *attachment*. Raises RealtimeError; the old socket is unharmed then."""
        live = self._live.get(request.session_id)
        if live is None:
            raise RealtimeError("session_resume_expired", "there is no such session")
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        await live.attach(Attach(request, attachment, done))
        return live

    async def drain(self, seconds: float) -> None:
        """Admit no more, tell everybody, wait, then close what is left."""
        self.is_draining = True
        self.line.ring()
        for live in self._live.values():
            live.mailbox.put(GoingAway(seconds))
        if self._live:
            await asyncio.wait([asyncio.ensure_future(live.wait_over()) for live in self.sessions()], timeout=seconds)
        for live in self._live.values():
            live.mailbox.put(End("server_shutdown"))
        if self._live:
            await asyncio.wait(
                [asyncio.ensure_future(live.wait_over()) for live in self.sessions()],
                timeout=self.settings.timeouts.control_s,
            )

    def sessions(self) -> list[LiveSession]:
        return list(self._live.values())

    def _refused(self, session_id: str, error: RealtimeError) -> RealtimeError:
        self._give_back(session_id)
        return error

    def _over(self, live: LiveSession) -> None:
        self._live.pop(live.session.id, None)
        self._give_back(live.session.id)

    def _give_back(self, session_id: str) -> None:
        self.admission.give_back(session_id, asyncio.get_running_loop().time())
        self.line.ring()

    def _check_draining(self) -> None:
        if self.is_draining:
            raise RealtimeError("resource_exhausted", "the server is shutting down")
