"""The server under test, what is known of its settings, and the peers that a case opened on it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from websockets.exceptions import InvalidStatus

from antiphon.client.conformance.invariants import check_events
from antiphon.client.conformance.peer import MismatchError, Peer

AUTO: dict[str, Any] = {"extra_body": {"auto_response": True}}
TURN: dict[str, Any] = {"extra_body": {"auto_response": False}}

PROFILES = {
    "default": "the scripted engine's own script; at most 4 sessions",
    "short": "as default; limits of 1 s for first frame, idle and grace",
    "small-slack": "as default; unacknowledged playback counts as heard 1 s after its length",
    "small-queue": "2 sessions; the queue of map.realtime is waited in for 1 s",
    "stalled": "an engine that needs a minute for a unit",
    "endless": "a model that never ends its turn; 3 continuation units",
    "failing": "a model that fails in the middle of an answer",
    "dying": "an engine that gives its session up in the middle of an answer",
    "no-vad": "as default, without a voice activity detector",
    "small-journal": "a journal of 64 KiB",
    "small-output": "an output queue of 512 KiB, and answers of 400 s that come as fast as they are read",
    "keyed": "API key `secret`, allowed origin https://good.example",
}


@dataclass(kw_only=True)
class Target:
    """Times are seconds, as the server is configured."""

    url: str
    profile: str = "default"
    key: str | None = None
    max_sessions: int = 4
    first_message_s: float = 10.0
    idle_s: float = 300.0
    grace_s: float = 30.0
    playback_slack_s: float = 5.0
    queue_wait_s: float = 25.0
    patience_s: float = 60.0  # cases that would wait longer are skipped
    peers: list[Peer] = field(default_factory=list)

    async def connect(self, path: str = "/v1/realtime", **options: Any) -> Peer:
        """A connection that has sent nothing yet."""
        if self.key is not None:
            options.setdefault("headers", {"Authorization": f"Bearer {self.key}"})
        peer = await Peer.connect(self.url + path, **options)
        self.peers.append(peer)
        return peer

    async def open(self, session: dict[str, Any] | None = None, **options: Any) -> Peer:
        """A session, by default in auto mode; `session.created` and `session.updated` have come."""
        peer = await self.connect(duplex="1", **options)
        await peer.send("session.update", session=AUTO if session is None else session)
        await peer.until("session.updated")
        return peer

    async def open_openai(self, detection: dict[str, Any] | None = None, **options: Any) -> Peer:
        """A session of OpenAI's dialect; with *detection*, a `session.update` that sets `turn_detection` to it."""
        peer = await self.connect(model=options.pop("model", "any"), **options)
        peer.can_close_session = False
        await peer.get("session.created")
        if detection is not None:
            await peer.send("session.update", session={"type": "realtime", "audio": {"input": detection}})
            await peer.get("session.updated")
        return peer

    async def resume(self, peer: Peer, *, token: str | None = None, seq: int | None = None) -> Peer:
        """Another connection for the session of *peer*, by default as a well-behaved client would ask for it."""
        other = await self.connect(duplex="1", autostart="0")
        await other.send(
            "session.resume",
            session_id=session_id(peer),
            resume_token=resume_token(peer) if token is None else token,
            last_received_server_event_seq=last_seq(peer) if seq is None else seq,
        )
        return other

    async def refused_status(self, **options: Any) -> int:
        """The HTTP status with which an upgrade is refused."""
        try:
            peer = await Peer.connect(f"{self.url}/v1/realtime", **options)
        except InvalidStatus as error:
            return error.response.status_code
        self.peers.append(peer)
        raise MismatchError("the upgrade was accepted")

    async def finish(self, *, checks: bool) -> None:
        """Close what the case left open; with *checks*, its events must keep every invariant."""
        peers, self.peers = self.peers, []
        for peer in peers:
            await peer.finish()
        if checks:
            for peer in peers:
                check_events(peer.events)


def session_id(peer: Peer) -> str:
    first = _credentials(peer)
    return str(first.get("session_id") or first["session"]["id"])


def resume_token(peer: Peer) -> str:
    return str(_credentials(peer)["resume_token"])


def last_seq(peer: Peer) -> int:
    return max((event["server_event_seq"] for event in peer.events if "server_event_seq" in event), default=0)


def _credentials(peer: Peer) -> dict[str, Any]:
    found = [event for event in peer.events if event["type"] in ("session.created", "session.resumed")]
    if not found:
        raise MismatchError("neither session.created nor session.resumed came")
    return found[-1]


Run = Callable[[Target], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One row of section 22. `run` is None where it is shown elsewhere or not at all; `note` says so."""

    number: int
    title: str
    run: Run | None = None
    profile: str = "default"
    waits: Callable[[Target], float] | None = None  # seconds that it must wait for the server
    checks: bool = True  # whether the events of its peers are checked for invariants
    note: str = ""
