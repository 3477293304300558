"""Cases about what the user sends: appends, units, commits, items, overlap."""

from antiphon.client.conformance.peer import Peer, equal, require
from antiphon.client.conformance.sounds import encode, loud, loud_float, loud_g711, png, quiet
from antiphon.client.conformance.steps import answered, ask, done_status, of_type, pcm_done, types
from antiphon.client.conformance.target import TURN, Case, Target

_FAN_OUT = [
    "input_audio_buffer.speech_stopped",
    "conversation.item.added",
    "conversation.item.created",
    "input_audio_buffer.committed",
    "conversation.item.done",
]


async def bad_audio(target: Target) -> None:
    peer = await target.open()
    for audio in (encode(b"\x00" * 321), "not base64!", "AAA"):
        await peer.append(audio)
        await peer.error("bad_audio")
    await peer.append(encode(b"\x00\x00\xc0\x7f"), format="pcm_f32le")
    await peer.error("bad_audio")
    await peer.append("")
    await peer.alive()


async def bad_rates(target: Target) -> None:
    peer = await target.open()
    for rate in (True, 7999, 192_001, 16_000.5, 0, "16000"):
        await peer.append(loud(20), sample_rate_hz=rate)
        await peer.error("bad_event")
    await peer.alive()


async def rate_change(target: Target) -> None:
    peer = await target.open()
    await peer.append(loud_float(100), format="pcm_f32le", sample_rate_hz=16_000)
    await peer.append(loud_float(100, 24_000), format="pcm_f32le", sample_rate_hz=24_000)
    await peer.error("bad_event")
    await peer.alive()


async def formats(target: Target) -> None:
    rows: list[tuple[str, dict[str, object]]] = [
        (loud_float(600), {"format": "pcm_f32le"}),
        (loud_g711(600), {"format": "g711_ulaw"}),
        (loud_g711(600), {"format": "g711_alaw"}),
        (loud_g711(600), {"format": {"type": "audio/pcmu"}}),
        (loud(600, 24_000), {"sample_rate_hz": 24_000}),
        (loud(600, 44_100), {"format": {"type": "audio/pcm", "rate": 44_100}}),
    ]
    for audio, fields in rows:
        peer = await target.open(TURN)
        await peer.append(audio, **fields)
        await peer.commit()
        stopped = await peer.get("input_audio_buffer.speech_stopped")
        require(abs(stopped["audio_end_ms"] - 600) <= 1, f"{fields}: {stopped['audio_end_ms']} ms instead of 600")
        await peer.finish()


async def bad_frames(target: Target) -> None:
    peer = await target.open()
    picture = png()
    gif = encode(b"GIF89a" + b"\x00" * 20)
    rows: list[dict[str, object]] = [
        {"video_frames": [picture] * 3},
        {"video_frames": [f"data:image/png;base64,{picture}"]},
        {"video_frames": [gif]},
        {"video_frames": ["A" * 4_000_001]},
        {"video_frames": [picture], "max_slice_nums": 2},
    ]
    for fields in rows:
        await peer.append(quiet(20), **fields)
        await peer.error("invalid_video_frames")
    await peer.send("input_audio_buffer.append", video_frames=[picture])
    await peer.error("invalid_input_modality")
    await peer.append(quiet(20), video_frames=[picture, None])
    await peer.alive()


async def speech_started_once(target: Target) -> None:
    peer = await target.open()
    for _ in range(3):
        await peer.append(loud(200))
    await peer.commit()
    committed = await peer.get("input_audio_buffer.committed")
    started = of_type(peer.events, "input_audio_buffer.speech_started")
    equal([event["item_id"] for event in started], [committed["item_id"]], "items of speech_started")


async def empty_commit(target: Target) -> None:
    peer = await target.open()
    await peer.commit()
    await peer.error("input_audio_buffer_empty")
    await peer.alive()


async def silent_commit(target: Target) -> None:
    peer = await target.open()
    await peer.append(quiet(500))
    await peer.commit()
    events = await peer.until("response.listen")
    equal(types(events), [*_FAN_OUT[1:], "response.listen"], "events of a silent commit")
    committed = of_type(events, "input_audio_buffer.committed")[0]["event"]
    require(committed["empty"] and committed["no_response"] and not committed["is_speech"], "not marked as silence")
    equal(events[-1]["reason"], "silence_or_noise", "reason")


async def fan_out(target: Target) -> None:
    peer = await target.open()
    await peer.append(loud(500))
    await peer.commit()
    await peer.get("input_audio_buffer.speech_started")
    events = await peer.until("conversation.item.done")
    equal(types(events), _FAN_OUT, "events of a commit")
    ids = {event["item"]["id"] for event in events if "item" in event} | {events[3]["item_id"]}
    equal(len(ids), 1, "number of item ids")


async def transcript_hint(target: Target) -> None:
    peer = await target.open()
    await peer.append(loud(500), transcript="hello")
    await peer.commit()
    completed = await peer.get("conversation.item.input_audio_transcription.completed")
    equal(completed["transcript"], "hello", "transcript")


async def padded_unit(target: Target) -> None:
    peer = await target.open()
    await answered(peer)  # 1500 ms: a second, and the rest padded
    other = await target.open()
    await other.append(loud(999.9))
    await other.commit()
    await other.get("response.created")
    third = await target.open()
    await third.append(loud(1000))
    await pcm_done(third)
    await third.commit()
    later = await third.pause(0.5)
    extra = [event["type"] for event in later if event["type"].startswith("response.")]
    equal(extra, [], "events of an extra unit")


async def two_and_a_half_seconds(target: Target) -> None:
    peer = await target.open()
    await peer.append(loud(2500))
    await pcm_done(peer)
    await pcm_done(peer)
    await peer.commit()
    await peer.get("response.created")
    equal(len(of_type(peer.events, "response.listen")), 2, "units before the commit")


async def clear_keeps_the_response(target: Target) -> None:
    peer = await target.open()
    await ask(peer)
    await peer.append(loud(300))
    await peer.send("input_audio_buffer.clear")
    await peer.get("input_audio_buffer.cleared")
    equal((await done_status(peer))[0], "completed", "status")
    await peer.commit()
    await peer.error("input_audio_buffer_empty")


async def pending_bytes(target: Target) -> None:
    peer = await target.open(TURN)
    minute = loud(60_000)
    for _ in range(5):  # 5 minutes of float32 are 18 MiB
        await peer.append(minute)
    await peer.error("input_backpressure", 15)
    await peer.alive()


async def pending_commits(target: Target) -> None:
    peer = await target.open()
    for _ in range(5):
        await peer.append(loud(200))
        await peer.commit()
    await peer.error("input_backpressure")
    equal(len(of_type(peer.events, "input_audio_buffer.committed")), 4, "commits before")
    await peer.alive()


async def items(target: Target) -> None:
    peer = await target.open()
    for role in ("user", "assistant", "system"):
        part = {"type": "output_text" if role == "assistant" else "input_text", "text": "Hi."}
        item = {"id": f"my_{role}", "type": "message", "role": role, "content": [part]}
        await peer.send("conversation.item.create", item=item)
        events = await peer.until("conversation.item.done")
        equal(types(events)[-3:], [f"conversation.item.{end}" for end in ("added", "created", "done")], "events")
    await peer.send("conversation.item.retrieve", item_id="my_user")
    equal((await peer.get("conversation.item.retrieved"))["item"]["id"], "my_user", "item")
    await peer.send("conversation.item.delete", item_id="my_user")
    equal((await peer.get("conversation.item.deleted"))["item_id"], "my_user", "item")
    for kind in ("retrieve", "delete"):
        await peer.send(f"conversation.item.{kind}", item_id="my_user")
        await peer.error("item_not_found")
    await peer.send("conversation.item.retrieve")
    await peer.error("missing_item_id")


async def call_outputs(target: Target) -> None:
    peer = await target.open()
    for item, param in (
        ({"type": "function_call_output", "call_id": "no", "output": "1"}, "item.call_id"),
        ({"type": "function_call_output", "call_id": "no", "output": 1}, "item.output"),
    ):
        await peer.send("conversation.item.create", item=item)
        event = await peer.error("invalid_function_call_output")
        equal(event["error"]["param"], param, "param")


async def overlap_in_auto_mode(target: Target) -> None:
    peer = await target.open()
    await ask(peer)
    await peer.append(loud(1000))
    equal((await done_status(peer))[0], "completed", "status")
    require(not of_type(peer.events, "overlap.decision"), "a decision was told")
    await pcm_done(peer)  # the audio reached the model


async def short_acknowledgement(target: Target) -> None:
    peer = await target.open(TURN)
    await ask(peer, response_create=True)
    await peer.append(loud(300))
    await peer.commit(response_create=True)
    committed = (await peer.get("input_audio_buffer.committed"))["event"]
    require(committed.get("overlap_ack") and committed.get("empty"), "not taken as an acknowledgement")
    equal((await done_status(peer))[0], "completed", "status")


async def _talk_over(peer: Peer) -> None:
    await ask(peer, response_create=True)
    await peer.append(loud(1500))
    await peer.commit(response_create=True)
    committed = (await peer.get("input_audio_buffer.committed"))["event"]
    require(committed.get("overlap_deferred") and committed.get("response_create_deferred"), "not deferred")


async def deferred_turns(target: Target) -> None:
    peer = await target.open(TURN)
    await _talk_over(peer)
    await peer.get("response.done")
    await peer.get("response.created")
    await peer.get("response.done")
    other = await target.open(TURN)
    await _talk_over(other)
    await other.send("response.cancel")
    await other.get("response.done")
    later = await other.pause(0.5)
    require(not of_type(later, "response.created"), "a turn came up although the response was cancelled")


async def queued_input_cleared(target: Target) -> None:
    peer = await target.open(TURN)
    await peer.append(loud(1500))
    await peer.commit(response_create=True)
    await peer.get("response.created")
    await peer.send("input_audio_buffer.clear")
    events = await peer.until("input_audio_buffer.cleared")
    details = of_type(events, "response.done")[0]["response"]["status_details"]
    equal(details["reason"], "input_cleared", "reason")
    await peer.append(loud(200))
    await peer.alive()


CASES = (
    Case(number=12, title="odd bytes, bad base64, NaN", run=bad_audio),
    Case(number=13, title="bad sample rates", run=bad_rates),
    Case(number=14, title="the rate changes inside a turn", run=rate_change),
    Case(number=15, title="float32, G.711, other rates", run=formats),
    Case(number=16, title="bad video frames", run=bad_frames),
    Case(number=17, title="speech_started once for each item", run=speech_started_once),
    Case(number=18, title="commit of nothing", run=empty_commit),
    Case(number=19, title="commit of silence", run=silent_commit),
    Case(number=20, title="order of a commit's events", run=fan_out),
    Case(number=21, title="transcript hint", run=transcript_hint),
    Case(number=22, title="999.9 ms are padded, 1000 ms are not", run=padded_unit),
    Case(number=23, title="2500 ms in one append", run=two_and_a_half_seconds),
    Case(number=24, title="frame groups in order", note="shown in tests/unit/realtime/test_input_buffer.py"),
    Case(number=25, title="clear keeps the response", run=clear_keeps_the_response),
    Case(number=26, title="16 MiB of pending input", run=pending_bytes),
    Case(number=27, title="a fifth pending commit", run=pending_commits, profile="stalled"),
    Case(number=42, title="items: create, retrieve, delete", run=items),
    Case(number=43, title="function_call_output", run=call_outputs),
    Case(number=49, title="listen_only in auto mode", run=overlap_in_auto_mode),
    Case(number=50, title="a short acknowledgement in turn mode", run=short_acknowledgement),
    Case(number=51, title="a turn over a response is deferred", run=deferred_turns),
    Case(number=89, title="clear while units are queued", run=queued_input_cleared, profile="stalled"),
    Case(
        number=90, title="real audio calls a silence unit off", note="shown in tests/unit/realtime/test_unit_chain.py"
    ),
)
