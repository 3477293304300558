"""All live sessions of this process: admission, opening, finding one to resume, draining."""

import asyncio

from antiphon.core.errors import AntiphonError
from antiphon.core.ids import IdSource
from antiphon.realtime.admission import Admission
from antiphon.realtime.engine import DuplexEngine
from antiphon.realtime.opening import Opening, opening_settings
from antiphon.realtime.resume import ResumeRequest
from antiphon.realtime.session import Session, opening_error
from antiphon.realtime.session_state import Surroundings
from antiphon.serving.realtime.live_session import LiveSession
from antiphon.serving.realtime.mailbox import Attach, Attachment, End, GoingAway
from antiphon.serving.realtime.settings import RealtimeSettings
from antiphon.wire.realtime.errors import RealtimeError


class Hub:
    """Sessions by id. A slot is taken before the engine is asked and given back when the session is over."""

    def __init__(self, engine: DuplexEngine, settings: RealtimeSettings, ids: IdSource) -> None:
        self.settings = settings
        self._engine = engine
        self._ids = ids
        self.admission = Admission(settings.limits)
        self._around = Surroundings(ids=ids, limits=settings.limits, scorer_source=settings.scorer_source)
        self._live: dict[str, LiveSession] = {}
        self._is_draining = False
        self.is_warm = asyncio.Event()
        self.is_warm.set()

    @property
    def num_sessions(self) -> int:
        return len(self._live)

    async def open(
        self, opening: Opening, attachment: Attachment, *, model: str | None, announces_update: bool = True
    ) -> LiveSession:
        """Open a session for the socket of *attachment*.

        Raises:
            RealtimeError: what is wrong with the settings, `resource_exhausted`, `timeout`, or the engine's refusal.
        """
        if self._is_draining:
            raise RealtimeError("resource_exhausted", "the server is shutting down")
        defaults = self.settings.defaults
        settings = opening_settings(opening, model=model or defaults.model or self._engine.model, defaults=defaults)
        loop = asyncio.get_running_loop()
        session_id = f"sess_{self._ids.new_hex(24)}"
        self.admission.take(session_id, loop.time())
        try:
            session = Session(session_id, settings, self._around, now_s=loop.time())
            live = LiveSession(session, self._over)
            engine = await asyncio.wait_for(
                self._engine.open(session_id, settings, live.deliver), self.settings.timeouts.control_s
            )
        except asyncio.TimeoutError:
            raise self._refused(session_id, RealtimeError("timeout", "the engine did not open the session")) from None
        except AntiphonError as error:
            raise self._refused(session_id, opening_error(error)) from error
        except BaseException:
            self.admission.give_back(session_id, loop.time())
            raise
        self._live[session_id] = live
        live.start(engine, attachment, announces_update=announces_update)
        return live

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
        self._is_draining = True
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
        self.admission.give_back(session_id, asyncio.get_running_loop().time())
        return error

    def _over(self, live: LiveSession) -> None:
        self._live.pop(live.session.id, None)
        self.admission.give_back(live.session.id, asyncio.get_running_loop().time())
