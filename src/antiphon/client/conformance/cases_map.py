"""The case about OpenBMB's `map.realtime`: order of text and sound, one end for each response, the queue."""

from base64 import b64decode

from antiphon.client.conformance.peer import Peer, equal, require
from antiphon.client.conformance.sounds import encode, loud_float
from antiphon.client.conformance.steps import types
from antiphon.client.conformance.target import Case, Target

_SECOND_BYTES = 24_000 * 4
_SILENCE = encode(bytes(16_000 * 4))


async def connect(target: Target) -> Peer:
    return await target.connect(model="any", mode="audio", subprotocols=["map.realtime"])


async def open_map(target: Target) -> Peer:
    peer = await connect(target)
    equal(peer.subprotocol, "map.realtime", "subprotocol")
    await peer.get("session.queue_done")
    await peer.send("session.init", payload={})
    created = await peer.get("session.created")
    require(isinstance(created["session_id"], str) and created["session_id"], "session_id at the top level")
    return peer


async def say(peer: Peer) -> None:
    for audio in (loud_float(1000), loud_float(1000), _SILENCE):
        await peer.send("input.append", input={"audio": audio})


async def map_realtime(target: Target) -> None:
    peer = await open_map(target)
    num_tokens = 0
    for _ in range(2):
        await say(peer)
        seen = await peer.until("response.listen", timeout_s=15)
        equal(types(seen).count("response.done"), 0, "response.done beside response.listen")
        deltas = [event for event in seen if event["type"] == "response.output.delta" and event["kind"] != "listen"]
        equal([event["kind"] for event in deltas], ["text", "audio"] * 4 + ["audio"], "kinds of deltas")
        equal([event["end_of_turn"] for event in deltas if event["kind"] == "audio"][-1], True, "the last end_of_turn")
        sizes = [len(b64decode(event["audio"])) for event in deltas if event["kind"] == "audio"]
        equal(sizes, [_SECOND_BYTES] * 4 + [0], "bytes of sound")
        require(all(len(event.keys() & {"text", "audio", "delta"}) == 1 for event in deltas), "one payload a frame")
        usage = seen[-1]["usage"]
        require(usage["total_tokens"] > num_tokens, "usage is of the whole session")
        num_tokens = usage["total_tokens"]
    equal(types(await peer.pause(0.5)).count("response.listen"), 0, "a second end of the turn")

    others = [await open_map(target) for _ in range(target.max_sessions - 1)]
    late = await connect(target)
    place = await late.get("session.queued")
    equal((place["position"], place["queue_length"]), (1, 1), "place in the queue")
    require(place["estimated_wait_s"] >= 0, "estimated_wait_s")
    await late.error("resource_exhausted", target.queue_wait_s + 4)
    await late.closed()

    next_one = await connect(target)
    await next_one.get("session.queued")
    await peer.send("session.close", reason="user_stop")
    equal((await peer.get("session.closed"))["reason"], "user_stop", "reason")
    equal(await peer.closed(), 1000, "close code")
    await next_one.get("session.queue_done")
    for other in others:
        await other.finish()


CASES = (
    Case(
        number=98,
        title="map.realtime: order, one end of a turn, queue",
        run=map_realtime,
        profile="small-queue",
        waits=lambda target: target.queue_wait_s,
    ),
)
