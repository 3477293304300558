"""A `DuplexEngine` without a model: the timers around `realtime.script`."""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial

from antiphon.realtime.engine import (
    Append,
    Cancel,
    Close,
    EngineClosed,
    EngineCommand,
    EngineOutput,
    EngineSession,
    Reconfigure,
)
from antiphon.realtime.script import DEFAULT_SCRIPT, Script, ScriptedRun, text_only
from antiphon.realtime.settings import SessionSettings

Deliver = Callable[[EngineOutput], None]


class ScriptedSession:
    """One session. Outputs come in order even where their times are equal."""

    def __init__(self, run: ScriptedRun, deliver: Deliver, on_close: Callable[[], None]) -> None:
        self._run = run
        self._deliver = deliver
        self._on_close = on_close
        self._timers: deque[asyncio.TimerHandle] = deque()
        self._last_s = 0.0
        self._seed: str | None = None

    def send(self, command: EngineCommand) -> None:
        if isinstance(command, Append):
            loop = asyncio.get_running_loop()
            for due in self._run.unit(command.unit):
                # Timers of one moment fire in no order, so each output keeps a little distance from the last.
                self._last_s = max(loop.time() + due.after_s, self._last_s + 1e-4)
                self._timers.append(loop.call_at(self._last_s, self._put, due.output))
        elif isinstance(command, Reconfigure):
            text = command.settings.initial_user_text
            if text is not None and text != self._seed:
                self._run.seed()
            self._seed = text
        elif isinstance(command, Cancel):
            self._stop()
            self._run.cancel()
        elif isinstance(command, Close):
            self._stop()
            self._on_close()
            self._deliver(EngineClosed())

    def _put(self, output: EngineOutput) -> None:
        self._timers.popleft()
        self._deliver(output)

    def _stop(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        self._last_s = 0.0


class ScriptedEngine:
    """Runs one script for every session, each from its beginning."""

    model = "scripted"

    def __init__(self, script: Script = DEFAULT_SCRIPT) -> None:
        self._script = script
        self.session_ids: set[str] = set()

    async def open(self, session_id: str, settings: SessionSettings, deliver: Deliver) -> EngineSession:
        script = self._script if settings.speaks else text_only(self._script)
        self.session_ids.add(session_id)
        return ScriptedSession(ScriptedRun(script), deliver, partial(self.session_ids.discard, session_id))
