"""Cases about a session's life: resume, takeover, expiry, close, slow readers."""

import asyncio

from antiphon.client.conformance.peer import MismatchError, equal, require
from antiphon.client.conformance.sounds import loud
from antiphon.client.conformance.steps import answered, ask, done_status, of_type, types
from antiphon.client.conformance.target import Case, Target, last_seq, resume_token, session_id


async def resume(target: Target) -> None:
    peer = await target.open()
    await ask(peer)
    seen = last_seq(peer)
    await peer.drop()
    await asyncio.sleep(0.3)
    other = await target.resume(peer, seq=seen)
    resumed = await other.get("session.resumed")
    equal(resumed["attachment_generation"], 2, "generation")
    require(resumed["resume_token"] != resume_token(peer), "the token was not changed")
    await other.get("response.done")
    numbers = [event["server_event_seq"] for event in other.events if "server_event_seq" in event]
    equal(numbers, list(range(seen + 1, seen + 1 + len(numbers))), "replayed numbers")
    await answered(other)


async def refused_resumes(target: Target) -> None:
    peer = await target.open()
    await answered(peer)
    await peer.send("session.event_ack", server_event_seq=3)
    await peer.alive()
    old = resume_token(peer)
    await peer.drop()
    await asyncio.sleep(0.1)
    other = await target.resume(peer, token="wrong")
    await other.error("invalid_resume_token")
    await other.closed()
    other = await target.resume(peer, seq=10_000)
    await other.error("session_resume_conflict")
    other = await target.resume(peer, seq=2)
    equal((await other.get("session.resync_required"))["reason"], "journal_gap", "reason")
    await other.closed()
    other = await target.resume(peer)
    await other.get("session.resumed")
    await other.alive()
    again = await target.resume(peer, token=old)
    await again.error("invalid_resume_token")
    unknown = await target.connect(duplex="1", autostart="0")
    await unknown.send("session.resume", session_id="none", resume_token="x")
    await unknown.error("session_resume_expired")
    await other.alive()


async def takeover(target: Target) -> None:
    peer = await target.open()
    other = await target.resume(peer)
    await other.get("session.resumed")
    replaced = await peer.get("session.replaced")
    equal(replaced["attachment_generation"], 1, "generation that was replaced")
    equal(await peer.closed(), 1000, "close code")
    await answered(other)


async def formats_survive(target: Target) -> None:
    peer = await target.open(
        {"extra_body": {"auto_response": True}, "input_audio_format": "pcm16", "sample_rate_hz": 24_000}
    )
    await peer.drop()
    await asyncio.sleep(0.1)
    other = await target.resume(peer)
    await other.get("session.resumed")
    await other.append(loud(600, 24_000))
    await other.commit()
    stopped = await other.get("input_audio_buffer.speech_stopped")
    require(abs(stopped["audio_end_ms"] - 600) <= 1, f"{stopped['audio_end_ms']} ms instead of 600")


async def expiry(target: Target) -> None:
    peer = await target.open()
    expired = await peer.get("session.expired", target.idle_s + 3)
    equal(expired["reason"], "idle_ttl_expired", "reason")
    equal(await peer.closed(), 1000, "close code")
    peer = await target.open()
    await peer.drop()
    await asyncio.sleep(target.grace_s + 0.7)
    other = await target.resume(peer)
    await other.error("session_resume_expired")


async def heartbeat(target: Target) -> None:
    peer = await target.open()
    for _ in range(3):
        await peer.pause(target.idle_s * 0.6)
        await peer.alive()


async def close(target: Target) -> None:
    peer = await target.open()
    await peer.send("session.close", reason="done")
    closed = await peer.get("session.closed")
    equal(closed["reason"], "done", "reason")
    equal(await peer.closed(), 1000, "close code")
    equal(len([kind for kind in types(peer.events) if kind in ("session.closed", "session.expired")]), 1, "ends")


async def close_during_response(target: Target) -> None:
    peer = await target.open()
    await ask(peer)
    await peer.send("session.close")
    equal(await done_status(peer), ("cancelled", "client_cancelled"), "end of the response")
    await peer.get("session.closed")
    equal(await peer.closed(), 1000, "close code")


async def leave_while_closing(target: Target) -> None:
    """The slot is free afterwards, whoever closed first."""
    for _ in range(target.max_sessions + 1):
        peer = await target.open()
        await peer.send("session.close")
        await peer.drop()
        await asyncio.sleep(0.1)


async def signal_close(target: Target) -> None:
    for signal in ("close", "timeout"):
        peer = await target.open()
        await peer.send("turn.signal", event=signal)
        await peer.get("session.closed")
        equal(await peer.closed(), 1000, "close code")


async def journal_overflow(target: Target) -> None:
    peer = await target.open()
    await answered(peer)
    await answered(peer)
    resyncs = of_type(peer.events, "session.resync_required")
    equal([event["reason"] for event in resyncs], ["journal_overflow"], "resync_required")
    position = peer.events.index(resyncs[0])
    require(all("server_event_seq" not in event for event in peer.events[position:]), "numbers after the overflow")
    await peer.drop()
    await asyncio.sleep(0.1)
    other = await target.resume(peer, seq=0)
    equal((await other.get("session.resync_required"))["reason"], "journal_gap", "reason")


async def old_socket_goes(target: Target) -> None:
    peer = await target.open()
    other = await target.resume(peer)
    await other.get("session.resumed")
    await peer.closed()
    await asyncio.sleep(0.2)
    await answered(other)


async def parallel_resumes(target: Target) -> None:
    peer = await target.open()
    await peer.drop()
    await asyncio.sleep(0.1)
    pair = await asyncio.gather(target.resume(peer), target.resume(peer))
    firsts = await asyncio.gather(*(other.get(lambda _: True) for other in pair))
    kinds = sorted(event["type"] for event in firsts)
    equal(kinds, ["error", "session.resumed"], "what the two were told")
    winner = next(other for other, event in zip(pair, firsts, strict=True) if event["type"] == "session.resumed")
    for _ in range(3):  # longer than the grace time, never idle
        await winner.pause(target.grace_s / 2)
        await winner.alive()


async def lost_resumed(target: Target) -> None:
    """The socket dies right after `session.resumed` was written: its client has the old token still."""
    peer = await target.open()
    await peer.drop()
    await asyncio.sleep(0.1)
    lost = await target.resume(peer)
    await lost.get("session.resumed")
    still = await target.resume(peer)
    await still.error("invalid_resume_token")
    await lost.drop()
    await asyncio.sleep(0.1)
    other = await target.resume(peer)
    equal((await other.get("session.resumed"))["attachment_generation"], 3, "generation")


async def refused_while_attached(target: Target) -> None:
    peer = await target.open()
    await peer.send("session.event_ack", server_event_seq=1)
    await peer.alive()
    await peer.send("session.event_ack", server_event_seq=2)
    await asyncio.sleep(0.1)
    for token, seq in (("wrong", 2), (None, 0)):
        other = await target.resume(peer, token=token, seq=seq)
        if token is None:
            equal((await other.get("session.resync_required"))["reason"], "journal_gap", "reason")
        else:
            await other.error("invalid_resume_token")
    await peer.alive()
    await peer.send("session.event_ack", server_event_seq=10_000)
    await peer.error("invalid_event_ack")


async def slow_reader(target: Target) -> None:
    slow, other = await target.open(), await target.open()
    slow.stop_reading()
    await slow.append(loud(1500))
    await slow.commit()
    await answered(other)
    # The slow one is ended by the server, seconds after its last byte went: its id is no longer there to resume.
    for _ in range(120):
        await asyncio.sleep(0.25)
        probe = await target.connect(duplex="1", autostart="0")
        await probe.send("session.resume", session_id=session_id(slow), resume_token="x")
        event = await probe.get("error")
        if event["error"]["code"] == "session_resume_expired":
            await answered(other)
            return
    raise MismatchError("the session of a client that does not read goes on")


CASES = (
    Case(number=54, title="resume", run=resume),
    Case(number=55, title="resumes that are refused", run=refused_resumes),
    Case(number=56, title="takeover while attached", run=takeover),
    Case(number=57, title="journal overflow", run=journal_overflow, profile="small-journal"),
    Case(number=58, title="a resume that cannot be told", note="shown in tests/unit/realtime/test_resume.py"),
    Case(number=59, title="the old socket of a takeover goes", run=old_socket_goes),
    Case(number=60, title="formats survive a resume", run=formats_survive),
    Case(
        number=61,
        title="idle and grace expiry",
        run=expiry,
        profile="short",
        waits=lambda target: target.idle_s + target.grace_s,
    ),
    Case(
        number=62,
        title="heartbeats keep a session",
        run=heartbeat,
        profile="short",
        waits=lambda target: 2 * target.idle_s,
    ),
    Case(number=63, title="close", run=close),
    Case(number=64, title="the client leaves while the session closes", run=leave_while_closing),
    Case(number=70, title="a client that does not read", run=slow_reader, profile="small-output", checks=False),
    Case(number=86, title="turn.signal close", run=signal_close),
    Case(
        number=87,
        title="two resumes at once with one token",
        run=parallel_resumes,
        profile="short",
        waits=lambda target: target.grace_s,
    ),
    Case(number=95, title="a lost session.resumed", run=lost_resumed),
    Case(number=96, title="a refused resume harms nobody", run=refused_while_attached),
    Case(number=97, title="close during a response", run=close_during_response),
)
