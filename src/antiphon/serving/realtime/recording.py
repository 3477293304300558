"""`--record`: keeps a trace of every session in a folder, bounded, written beside the event loop."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from antiphon.core.errors import ConfigError
from antiphon.wire.realtime.json_frame import JsonObject
from antiphon.wire.realtime.trace import (
    FORMAT,
    TraceClosed,
    TraceFrame,
    TraceLine,
    TraceOpened,
    TraceTruncated,
    redacted_event,
    redacted_query,
    render_line,
)

logger = logging.getLogger(__name__)

MAX_SESSION_BYTES = 64 * 2**20
MAX_TOTAL_BYTES = 4 * 2**30
MAX_WAITING_BYTES = 8 * 2**20  # lines that the disk has not taken yet
_MAX_KNOWN_SESSIONS = 4096


@dataclass
class _Session:
    began_s: float
    num_connections: int = 0
    num_bytes: int = 0


class SessionRecorder:
    """One file for each session, `SESSION_ID.jsonl`; further connections of a session go on in its file."""

    def __init__(
        self,
        folder: Path,
        *,
        max_session_bytes: int = MAX_SESSION_BYTES,
        max_total_bytes: int = MAX_TOTAL_BYTES,
    ) -> None:
        """Raises ConfigError if *folder* cannot be made or written."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            probe = folder / ".probe"
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise ConfigError(f"--record {folder}: cannot be written ({error.strerror})") from None
        self.folder = folder
        self.max_session_bytes = max_session_bytes
        self._max_total_bytes = max_total_bytes
        self._num_bytes = 0
        self._sessions: OrderedDict[str, _Session] = OrderedDict()

    def connection(self, path: str, query: dict[str, str], subprotocol: str | None) -> "ConnectionTrace":
        """A connection was accepted. Nothing is kept of one that never gets a session."""
        return ConnectionTrace(self, path, redacted_query(query), subprotocol, asyncio.get_running_loop().time)

    def session(self, session_id: str, now_s: float) -> _Session:
        found = self._sessions.setdefault(session_id, _Session(now_s))
        self._sessions.move_to_end(session_id)
        if len(self._sessions) > _MAX_KNOWN_SESSIONS:
            self._sessions.popitem(last=False)
        found.num_connections += 1
        return found

    def take(self, session: _Session, num_bytes: int) -> str | None:
        """Count *num_bytes* in; why they may not be kept, or None."""
        if session.num_bytes + num_bytes > self.max_session_bytes:
            return f"a trace has at most {self.max_session_bytes} bytes"
        if self._num_bytes + num_bytes > self._max_total_bytes:
            return f"all traces together have at most {self._max_total_bytes} bytes"
        session.num_bytes += num_bytes
        self._num_bytes += num_bytes
        return None


class ConnectionTrace:
    """What happens on one connection. Lines of before the session is known wait for its name."""

    def __init__(
        self,
        recorder: SessionRecorder,
        path: str,
        query: dict[str, str],
        subprotocol: str | None,
        clock: Callable[[], float],
    ) -> None:
        self._recorder = recorder
        self._clock = clock
        self._began_s = clock()
        self._opening = (path, query, subprotocol)
        self._early: list[tuple[float, Literal["client", "server"], str | None]] = []
        self._session: _Session | None = None
        self._file: Path | None = None
        self._number = 1
        self._is_truncated = False
        self._waiting: list[bytes] = []
        self._num_waiting_bytes = 0
        self._writing: asyncio.Task[None] | None = None
        self._is_closed = False

    def bind(self, session_id: str) -> None:
        """The connection has its session."""
        session = self._recorder.session(session_id, self._began_s)
        self._session, self._number = session, session.num_connections
        self._file = self._recorder.folder / f"{session_id}.jsonl"
        path, query, subprotocol = self._opening
        at_s = round(self._began_s - session.began_s, 6)
        self._note(
            TraceOpened(
                at_s=at_s, connection=self._number, format=FORMAT, path=path, query=query, subprotocol=subprotocol
            )
        )
        early, self._early = self._early, []
        for moment_s, by, text in early:
            self._frame(moment_s, by, text)

    def frame(self, by: Literal["client", "server"], text: str | None) -> None:
        """A frame came or went; None: a binary one."""
        if self._session is None:
            self._early.append((self._clock(), by, text))
        else:
            self._frame(self._clock(), by, text)

    def closed(self, by: Literal["client", "server"], code: int) -> None:
        if self._session is not None and not self._is_closed:
            self._is_closed = True
            self._note(
                TraceClosed(
                    at_s=round(self._clock() - self._session.began_s, 6), connection=self._number, by=by, code=code
                )
            )

    async def finish(self) -> None:
        """Wait until everything is on disk."""
        if self._writing is not None:
            await self._writing

    def _frame(self, moment_s: float, by: Literal["client", "server"], text: str | None) -> None:
        assert self._session is not None
        event = _event(text)
        self._note(
            TraceFrame(
                at_s=round(moment_s - self._session.began_s, 6),
                connection=self._number,
                by=by,
                event=event,
                text=text if event is None else None,
            )
        )

    def _note(self, line: TraceLine) -> None:
        assert self._session is not None
        if self._is_truncated:
            return
        rendered = render_line(line)
        reason = self._recorder.take(self._session, len(rendered))
        if reason is None and self._num_waiting_bytes + len(rendered) > MAX_WAITING_BYTES:
            reason = "the disk is too slow"
        if reason is not None:
            self._is_truncated = True
            logger.warning("the trace %s is cut off: %s", self._file, reason)
            rendered = render_line(TraceTruncated(at_s=line.at_s, connection=self._number, reason=reason))
        self._waiting.append(rendered)
        self._num_waiting_bytes += len(rendered)
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())

    async def _write(self) -> None:
        while self._waiting:
            lines, self._waiting, self._num_waiting_bytes = self._waiting, [], 0
            assert self._file is not None
            try:
                await asyncio.to_thread(_append, self._file, b"".join(lines))
            except OSError as error:
                self._is_truncated = True
                logger.warning("the trace %s cannot be written: %s", self._file, error)


def _append(path: Path, body: bytes) -> None:
    with path.open("ab") as file:
        file.write(body)


def _event(text: str | None) -> JsonObject | None:
    """None: no JSON object, or one that the protocol would not take either."""
    try:
        found = None if text is None else msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return redacted_event(found) if isinstance(found, dict) else None
