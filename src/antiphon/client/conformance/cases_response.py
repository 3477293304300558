"""Cases about what the model says: order, cancelling, playback, failure."""

import asyncio

from antiphon.client.conformance.peer import equal, require
from antiphon.client.conformance.sounds import loud, quiet
from antiphon.client.conformance.steps import (
    ANSWER_MS,
    answered,
    ask,
    done_status,
    no_output_after,
    of_type,
    types,
)
from antiphon.client.conformance.target import AUTO, TURN, Case, Target

_BEGIN = [
    "response.created",
    "conversation.item.added",
    "conversation.item.created",
    "response.output_item.added",
    "response.content_part.added",
    "response.speak",
]
_PAIR = ["response.output_audio.delta", "response.output_audio_transcript.delta"]
_END = [
    "response.output_audio.done",
    "response.output_audio_transcript.done",
    "response.content_part.done",
    "response.output_item.done",
    "conversation.item.done",
    "response.done",
    "rate_limits.updated",
]


async def spoken_order(target: Target) -> None:
    peer = await target.open()
    await peer.append(loud(1500))
    await peer.commit()
    await peer.until("conversation.item.done")
    await peer.get("response.listen")
    events = await peer.until("rate_limits.updated", 15)
    equal(types(events), [*_BEGIN, *_PAIR * 4, *_END], "events of a spoken response")
    response_id = events[0]["response_id"]
    equal(events[3]["item"]["id"], f"item_{response_id}", "item of the response")


async def transcript_pairs(target: Target) -> None:
    peer = await target.open()
    await answered(peer)
    audio = of_type(peer.events, _PAIR[0])
    equal(len(of_type(peer.events, _PAIR[1])), len(audio), "transcript deltas")
    equal([event["metadata"]["audio_duration_ms"] for event in audio][-1], ANSWER_MS, "duration at the end")
    for event in audio:
        equal((event["format"], event["sample_rate_hz"]), ("pcm16", 24_000), "format")


async def only_listening(target: Target) -> None:
    peer = await target.open()
    await peer.append(quiet(2000))
    for _ in range(2):
        listen = await peer.get("response.listen")
        require("response_id" not in listen, "a beat names a response")
    require(not of_type(peer.events, "response.created"), "there was a response")


async def terminal_listen(target: Target) -> None:
    peer = await target.open(TURN)
    await peer.append(quiet(500))
    await peer.commit(response_create=True, is_speech=True)
    created = await peer.get("response.created")
    listen = await peer.get("response.listen")
    done = await peer.get("response.done")
    equal({listen["response_id"], done["response_id"]}, {created["response_id"]}, "response ids")


async def cancel_active(target: Target) -> None:
    peer = await target.open()
    response_id = await ask(peer)
    await peer.get(_PAIR[1])
    await peer.send("response.cancel")
    equal(await done_status(peer), ("cancelled", "client_cancelled"), "end of the response")
    no_output_after(await peer.pause(0.4), response_id)
    await peer.send("session.update", session={})
    equal((await peer.get("session.updated"))["session"]["epoch"], 1, "epoch")
    await answered(peer)


async def cancel_nothing(target: Target) -> None:
    peer = await target.open()
    await peer.send("response.cancel")
    await peer.error("response_not_active")
    response_id, _ = await answered(peer)
    for wrong in (response_id, "resp-none"):
        await peer.send("response.cancel", response_id=wrong)
        await peer.error("response_not_active")
    await ask(peer)
    await peer.send("response.cancel", response_id="resp-none")
    await peer.error("response_not_active")
    equal((await done_status(peer))[0], "completed", "status")


async def clear_output(target: Target) -> None:
    peer = await target.open()
    response_id = await ask(peer)
    await peer.get(_PAIR[1])
    await peer.send("output_audio_buffer.clear")
    events = await peer.until("response.done")
    cleared = of_type(events, "output_audio_buffer.cleared")
    equal([event["response_id"] for event in cleared], [response_id], "cleared")
    equal(events[-1]["response"]["status_details"]["reason"], "output_audio_buffer_clear", "reason")
    await peer.send("output_audio_buffer.clear", response_id=response_id)
    await peer.get("output_audio_buffer.cleared")
    equal(len(of_type(peer.events, "response.done")), 1, "responses done")


async def barge_in_during_playback(target: Target) -> None:
    peer = await target.open()
    response_id, _ = await answered(peer)
    await peer.send("barge_in")
    equal((await peer.get("output_audio_buffer.cleared"))["response_id"], response_id, "cleared")
    await peer.pause(0.3)
    equal(len(of_type(peer.events, "response.done")), 1, "responses done")


async def stale_output(target: Target) -> None:
    peer = await target.open()
    for _ in range(3):
        response_id = await ask(peer)
        await peer.send("barge_in")
        await peer.get("response.done")
        no_output_after(await peer.pause(0.2), response_id)


async def acknowledge(target: Target) -> None:
    peer = await target.open()
    response_id, _ = await answered(peer)
    texts = []
    for played in (1000, 2500, 2000, ANSWER_MS):
        await peer.send("playback.ack", played_ms=played, response_id=response_id)
        event = (await peer.get("playback.acknowledged"))["event"]
        texts.append((event["committed_ms"], event["history_committed"]))
    equal([ms for ms, _ in texts], [1000, 2500, 2500, ANSWER_MS], "committed_ms")
    require(all(committed for _, committed in texts), "no history was committed")


async def bad_acknowledgements(target: Target) -> None:
    peer = await target.open()
    response_id, _ = await answered(peer)
    await peer.send("playback.ack", played_ms=1, response_id=response_id, item_id="item_other")
    await peer.error("playback_item_mismatch")
    await peer.send("playback.ack", played_ms=1, response_id="resp-none")
    await peer.error("playback_item_not_found")
    await peer.append(loud(200))
    await peer.commit()
    await peer.send("playback.ack", played_ms=1, response_id=response_id)
    await peer.error("playback_ack_too_late")


async def unheard_answer(target: Target) -> None:
    peer = await target.open()
    response_id = await ask(peer)
    await peer.get(_PAIR[1])
    await peer.send("response.cancel")
    await peer.get("response.done")
    await peer.send("playback.ack", played_ms=0, response_id=response_id)
    event = (await peer.get("playback.acknowledged"))["event"]
    require(not event["history_committed"], "the history has words that nobody heard")


async def truncate(target: Target) -> None:
    peer = await target.open()
    response_id = await ask(peer)
    await peer.get(_PAIR[1])
    item_id = f"item_{response_id}"
    await peer.send("conversation.item.truncate", item_id=item_id, audio_end_ms=800)
    await peer.get("conversation.item.truncated")
    require((await peer.get("playback.acknowledged"))["event"]["truncate"], "not marked as a truncation")
    done = (await peer.get("response.done"))["response"]
    shown = done["output"][0]["content"][0]["transcript"]
    said = "".join(event["delta"] for event in of_type(peer.events, _PAIR[1]))
    require(said.startswith(shown) and len(shown) < len(said), "the transcript was not cut")
    await peer.send("playback.ack", played_ms=ANSWER_MS, response_id=response_id)
    equal((await peer.get("playback.acknowledged"))["event"]["committed_ms"], 800, "the cap holds")
    await peer.send("conversation.item.truncate", item_id=item_id, audio_end_ms=0)
    await peer.get("conversation.item.truncated")
    await peer.get("playback.acknowledged")
    await answered(peer)


async def bad_truncations(target: Target) -> None:
    peer = await target.open()
    response_id, _ = await answered(peer)
    user_item = of_type(peer.events, "input_audio_buffer.committed")[0]["item_id"]
    item_id = f"item_{response_id}"
    rows = [(user_item, 0, 0), (item_id, ANSWER_MS + 1, 0), (item_id, -1, 0), (item_id, 0, 3)]
    for item, end, index in rows:
        await peer.send("conversation.item.truncate", item_id=item, audio_end_ms=end, content_index=index)
        await peer.error("bad_event")
    await peer.send("conversation.item.truncate", item_id="item_none", audio_end_ms=0)
    await peer.error("item_not_found")
    await peer.send("conversation.item.truncate", audio_end_ms=0)
    await peer.error("missing_item_id")


async def create_refused(target: Target) -> None:
    peer = await target.open(TURN)
    await peer.send("response.create")
    await peer.error("response_create_without_input")
    await peer.send("response.create", response={"instructions": "Sing."})
    await peer.error("unsupported_native_response_options")
    text = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi."}]}
    await peer.send("conversation.item.create", item=text)
    await peer.get("conversation.item.done")
    await peer.send("response.create")
    await peer.error("text_only_turn_unsupported")
    await ask(peer, response_create=True)
    await peer.send("response.create")
    await peer.error("response_already_active")
    equal((await done_status(peer))[0], "completed", "status")


async def continuation_limit(target: Target) -> None:
    peer = await target.open()
    loop = asyncio.get_running_loop()
    await ask(peer)
    began = loop.time()
    equal(await done_status(peer, 30), ("completed", "continuation_limit"), "end of the response")
    require(2.5 <= loop.time() - began <= 4.5, "3 silence units take 3 s")


async def failing_stage(target: Target) -> None:
    peer = await target.open()
    await ask(peer)
    await peer.error("talker_context_exceeded")
    equal(await done_status(peer), ("failed", "talker_context_exceeded"), "end of the response")
    await ask(peer)


async def dying_engine(target: Target) -> None:
    peer = await target.open()
    await ask(peer)
    await peer.error("engine_error")
    equal((await done_status(peer))[0], "failed", "status")
    equal((await peer.get("session.expired"))["reason"], "request_cleanup", "reason")
    equal(await peer.closed(), 1000, "close code")


async def metrics(target: Target) -> None:
    for is_on in (True, False):
        peer = await target.open({"extra_body": {"auto_response": True, "return_stage_metrics": is_on}})
        usages = [(await answered(peer))[1]["response"]["usage"] for _ in range(2)]
        inner = of_type(peer.events, _PAIR[0])[-1]["metadata"]["vllm_omni"]
        equal("stage_metrics" in inner, is_on, "stage metrics")
        await peer.send("session.close")
        total = (await peer.get("session.closed"))["event"]["usage"]
        for key in ("input_tokens", "output_tokens", "total_tokens"):
            equal(total[key], sum(usage[key] for usage in usages), f"sum of {key}")


async def no_acknowledgement(target: Target) -> None:
    peer = await target.open(TURN)
    await answered(peer, response_create=True)
    await peer.append(loud(1500))
    await peer.commit(response_create=True)
    await peer.get("response.created", ANSWER_MS / 1000 + target.playback_slack_s + 2)
    await peer.get("response.done")


async def two_sessions(target: Target) -> None:
    first, second = await target.open(), await target.open()
    one, two = await asyncio.gather(ask(first), ask(second))
    await first.send("barge_in")
    equal(await done_status(first), ("cancelled", "barge_in"), "end of the first")
    equal((await done_status(second))[0], "completed", "status of the second")
    require(one != two, "two sessions share a response id")


async def forced_listening(target: Target) -> None:
    peer = await target.open({"extra_body": {**AUTO["extra_body"], "force_listen_count": 3}})
    await peer.append(loud(1000))
    await peer.append(quiet(3000))
    events = await peer.until("response.created")
    equal(len(of_type(events, "response.listen")), 3, "units that listen")


CASES = (
    Case(number=28, title="order of a spoken response", run=spoken_order),
    Case(number=29, title="audio and transcript in pairs", run=transcript_pairs),
    Case(number=30, title="a turn that only listens", run=only_listening),
    Case(number=31, title="a listen that ends a response", run=terminal_listen),
    Case(number=32, title="cancel", run=cancel_active),
    Case(number=33, title="cancel of nothing", run=cancel_nothing),
    Case(number=34, title="output_audio_buffer.clear, in time and late", run=clear_output),
    Case(number=35, title="barge-in while the client still plays", run=barge_in_during_playback),
    Case(number=36, title="stale output is dropped", run=stale_output),
    Case(number=37, title="acknowledged playback", run=acknowledge),
    Case(number=38, title="acknowledgements that cannot be", run=bad_acknowledgements),
    Case(number=39, title="cancelled and never heard", run=unheard_answer),
    Case(number=40, title="truncation", run=truncate),
    Case(number=41, title="truncations that cannot be", run=bad_truncations),
    Case(number=44, title="response.create refused, and accepted", run=create_refused),
    Case(number=65, title="continuation limit", run=continuation_limit, profile="endless"),
    Case(number=69, title="the engine fails", run=dying_engine, profile="dying"),
    Case(number=67, title="one answer fails, the session stays", run=failing_stage, profile="failing"),
    Case(number=71, title="stage metrics and usage", run=metrics),
    Case(
        number=84,
        title="a client that never acknowledges",
        run=no_acknowledgement,
        profile="small-slack",
        waits=lambda target: ANSWER_MS / 1000 + target.playback_slack_s,
    ),
    Case(number=80, title="two sessions at once", run=two_sessions),
    Case(number=81, title="force_listen_count", run=forced_listening),
)
