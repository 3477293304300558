"""Cases about OpenAI's dialect: when it is spoken, what its events look like, what `response.create` does."""

import asyncio
from typing import Any

from antiphon.client.conformance.peer import Event, Peer, equal, require
from antiphon.client.conformance.sounds import loud, quiet
from antiphon.client.conformance.steps import of_type, types
from antiphon.client.conformance.target import Case, Target

RATE_HZ = 24_000
PUSH_TO_TALK: dict[str, Any] = {"turn_detection": None}

_PIECE = {"response_id", "item_id", "output_index", "content_index"}
_FIELDS = {
    "session.created": {"session"},
    "session.updated": {"session"},
    "input_audio_buffer.speech_started": {"audio_start_ms", "item_id"},
    "input_audio_buffer.speech_stopped": {"audio_end_ms", "item_id"},
    "input_audio_buffer.committed": {"previous_item_id", "item_id"},
    "input_audio_buffer.cleared": set(),
    "conversation.item.added": {"previous_item_id", "item"},
    "conversation.item.done": {"previous_item_id", "item"},
    "conversation.item.retrieved": {"item"},
    "conversation.item.deleted": {"item_id"},
    "conversation.item.truncated": {"item_id", "content_index", "audio_end_ms"},
    "response.created": {"response"},
    "response.output_item.added": {"response_id", "output_index", "item"},
    "response.content_part.added": {*_PIECE, "part"},
    "response.output_audio.delta": {*_PIECE, "delta"},
    "response.output_audio.done": _PIECE,
    "response.output_audio_transcript.delta": {*_PIECE, "delta"},
    "response.output_audio_transcript.done": {*_PIECE, "transcript"},
    "response.output_text.delta": {*_PIECE, "delta"},
    "response.output_text.done": {*_PIECE, "text"},
    "response.content_part.done": {*_PIECE, "part"},
    "response.output_item.done": {"response_id", "output_index", "item"},
    "response.done": {"response"},
    "rate_limits.updated": {"rate_limits"},
    "error": {"error"},
}
_SPOKEN = [
    "response.created",
    "conversation.item.added",
    "response.output_item.added",
    "response.content_part.added",
    *["response.output_audio.delta", "response.output_audio_transcript.delta"] * 4,
    "response.output_audio.done",
    "response.output_audio_transcript.done",
    "response.content_part.done",
    "response.output_item.done",
    "conversation.item.done",
    "response.done",
]
_ITEM_END = ["input_audio_buffer.committed", "conversation.item.done"]


async def say(peer: Peer, silence_ms: int = 0) -> None:
    """A turn of 1.5 s, and silence behind it, as an open microphone sends it."""
    await peer.append(loud(1500, RATE_HZ))
    for _ in range(silence_ms // 100):
        await peer.append(quiet(150))  # 16 kHz of 150 ms are 24 kHz of 100 ms


async def spoken(peer: Peer) -> Event:
    """One whole answer, completed; gives the response."""
    response = (await peer.get("response.done", timeout_s=15))["response"]
    equal((response["status"], response["status_details"]), ("completed", None), "status")
    require(response["output"][0]["content"][0]["transcript"], "nothing was said")
    return dict(response)


async def leave(peer: Peer) -> None:
    """Give the slot back: the server learns of it by the end of the socket, a moment later."""
    await peer.finish()
    await asyncio.sleep(0.1)


def check_fields(events: list[Event]) -> None:
    """Every event is one of this dialect's, with exactly its fields."""
    for event in events:
        require(event["type"] in _FIELDS, f"{event['type']} is not an event of this dialect")
        equal(set(event) - {"type", "event_id"}, set(_FIELDS[event["type"]]), f"fields of {event['type']}")


async def projection(target: Target) -> None:
    peer = await target.open_openai()
    await peer.send("session.update", session={"type": "realtime", "audio": {"input": PUSH_TO_TALK}})
    session = (await peer.get("session.updated"))["session"]
    equal(session["audio"]["input"]["format"], {"type": "audio/pcm", "rate": RATE_HZ}, "input format")
    equal(session["output_modalities"], ["audio"], "output_modalities")
    await say(peer)
    await peer.commit()
    await peer.send("response.create", response={"metadata": {"a": "b"}})
    events = await peer.until("response.done", timeout_s=15)
    equal(types(events)[types(events).index("response.created") :], _SPOKEN, "a spoken response")
    response = events[-1]["response"]
    equal(response["metadata"], {"a": "b"}, "metadata")
    equal(response["output_modalities"], ["audio"], "output_modalities")
    require(response["usage"]["total_tokens"] > 0, "response.done has no usage")
    (part,) = response["output"][0]["content"]
    equal(set(part), {"type", "transcript"}, "fields of a part")
    item_id = response["output"][0]["id"]
    await peer.send("conversation.item.truncate", item_id=item_id, content_index=0, audio_end_ms=10_000_000)
    equal((await peer.get("conversation.item.truncated"))["audio_end_ms"], 4000, "audio_end_ms is clamped")
    await peer.send("conversation.item.retrieve", item_id=item_id)
    await peer.get("conversation.item.retrieved")
    await peer.send("conversation.item.delete", item_id=item_id)
    await peer.get("conversation.item.deleted")
    await peer.send("response.cancel")
    cancelled = await peer.error("response_cancel_not_active")
    require(cancelled["error"]["message"].startswith("Cancellation failed"), "message of response_cancel_not_active")
    await peer.commit()
    await peer.error("input_audio_buffer_commit_empty")
    check_fields(peer.events)


async def choice(target: Target) -> None:
    bare = await target.open_openai()
    await bare.send("session.update", session={"type": "realtime"})
    require("server_event_seq" not in await bare.get("session.updated"), "a bare ?model= is not OpenAI's dialect")
    check_fields(bare.events)
    await leave(bare)
    for query in ({"duplex": "1"}, {"dialect": "vllm"}):
        native = await target.connect(model="any", **query)
        created = await native.get("session.created")
        require("resume_token" in created, f"{query} does not choose vLLM-Omni's dialect")
        await leave(native)
    named = await target.open_openai(dialect="openai", duplex="1")
    await named.send("session.heartbeat")
    await named.error("unknown_event")
    await leave(named)
    for first in (
        {"type": "session.heartbeat"},
        {"type": "session.update", "session": {"extra_body": {"auto_response": True}}},
    ):
        guessed = await target.connect(model="any")
        require("resume_token" not in await guessed.get("session.created"), "a bare ?model= can be resumed")
        await guessed.send(str(first.pop("type")), **first)
        answer = await guessed.get(lambda event: event["type"] != "session.created")
        equal(answer.get("server_event_seq"), 1, "number of the first event after the dialect was changed")
        if answer["type"] == "session.updated":
            equal(answer["session"]["sample_rate_hz"], 16_000, "input rate of vLLM-Omni's dialect")
        await leave(guessed)
    unknown = await target.connect(dialect="other")
    equal((await unknown.get("error"))["code"], "unsupported", "code of an unknown dialect")


async def open_microphone(target: Target) -> None:
    for detection in (None, {"turn_detection": {"type": "server_vad"}}):
        peer = await target.open_openai(detection)
        for _ in range(2):
            await say(peer, silence_ms=2000)
            await spoken(peer)
        await peer.pause(0.2)
        ids = [event["item_id"] for event in of_type(peer.events, "input_audio_buffer.speech_started")]
        equal(len(set(ids)), 2, "items")
        for name in ("speech_started", "speech_stopped", "committed"):
            told = [event["item_id"] for event in of_type(peer.events, f"input_audio_buffer.{name}")]
            equal(told, ids, f"items that {name} was told of")
        equal(len(of_type(peer.events, "response.created")), 2, "responses")
        await peer.commit()
        await peer.error("input_audio_buffer_commit_empty")
        await leave(peer)


async def requests(target: Target) -> None:
    for detection in (PUSH_TO_TALK, None):
        peer = await target.open_openai(detection)
        await say(peer)
        await peer.send("response.create")  # of speech that nobody committed
        equal(types(await peer.until("response.created"))[-3:-1], _ITEM_END, "events before response.created")
        await peer.send("response.create")
        await peer.error("conversation_already_has_active_response")
        await spoken(peer)
        await leave(peer)
    for scene in (_after_commit, _joined, _seeded, _nothing):
        peer = await target.open_openai(PUSH_TO_TALK if scene is _after_commit else None)
        await scene(peer)
        await leave(peer)


async def _after_commit(peer: Peer) -> None:
    await say(peer)
    await peer.commit()
    await peer.get("conversation.item.done")
    equal(await peer.pause(0.3), [], "events before response.create")
    await peer.send("response.create")
    await spoken(peer)


async def _joined(peer: Peer) -> None:
    await say(peer, silence_ms=2000)
    await peer.get("response.created")
    await peer.send("response.create", response={"metadata": {"asked": "late"}})
    equal((await spoken(peer))["metadata"], {"asked": "late"}, "metadata of the response that was joined")


async def _seeded(peer: Peer) -> None:
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Say something."}]}
    await peer.send("conversation.item.create", item=item)
    await peer.send("response.create", response={"instructions": "Be brief."})
    await spoken(peer)


async def _nothing(peer: Peer) -> None:
    """Nothing to answer: the model listens for eight seconds of silence, and the response ends empty."""
    await peer.send("response.create")
    response = (await peer.get("response.done", timeout_s=20))["response"]
    equal((response["status"], response["status_details"]), ("completed", None), "status")


CASES = (
    Case(number=83, title="dialect projections", run=projection),
    Case(number=92, title="choice of the dialect", run=choice),
    Case(number=93, title="openai: an open microphone, no commit", run=open_microphone),
    Case(number=94, title="openai: response.create", run=requests),
)
