"""Cases about opening a session: the handshake, configuration, and who is let in."""

import json

from antiphon.client.conformance.peer import Peer, equal, require
from antiphon.client.conformance.sounds import loud, quiet, wav
from antiphon.client.conformance.steps import answered, of_type, types
from antiphon.client.conformance.target import AUTO, TURN, Case, Target


async def silent_client(target: Target) -> None:
    peer = await target.connect(duplex="1")
    await peer.error("config_timeout", target.first_message_s + 3)
    await peer.closed()


async def bad_first_frame(target: Target) -> None:
    for frame, code in (("garbage", "invalid_json"), ("[1]", "bad_event")):
        peer = await target.connect(duplex="1")
        await peer.send_text(frame)
        await peer.error(code)
        await peer.closed()


async def open_by_update(target: Target) -> None:
    peer = await target.connect(duplex="1")
    await peer.send("session.update", session=AUTO)
    created, updated = await peer.until("session.updated")
    equal(created["type"], "session.created", "first event")
    require("server_event_seq" not in created, "session.created has a sequence number")
    equal(len(created["resume_token"]), 43, "characters of the token")
    equal(created["attachment_generation"], 1, "generation")
    equal(updated["server_event_seq"], 1, "sequence number of session.updated")


async def autostart(target: Target) -> None:
    peer = await target.connect(duplex="1", model="any")
    created = await peer.get("session.created")
    equal(created["session"]["model"], "any", "model")


async def other_first_event(target: Target) -> None:
    peer = await target.connect(duplex="1", model="any", autostart="0")
    await peer.append(loud(200))
    events = await peer.until("input_audio_buffer.speech_started")
    equal(types(events)[:2], ["session.created", "session.updated"], "events before the first command's")


async def turn_handler(target: Target) -> None:
    peer = await target.connect(duplex="0")
    event = await peer.get("error")
    equal(event["code"], "unsupported", "code")
    require(isinstance(event["error"], str), "the refusal of a route is flat")
    await peer.closed()


async def flat_refusal_waits(target: Target) -> None:
    """A client that sends at once still reads the refusal."""
    peer = await target.connect(duplex="0")
    await peer.send("session.update", session=AUTO)
    await peer.get("error")
    equal(await peer.closed(), 1000, "close code")


async def full_house(target: Target) -> None:
    peers = [await target.open() for _ in range(target.max_sessions)]
    late = await target.connect(duplex="1")
    await late.send("session.update", session=AUTO)
    await late.error("resource_exhausted")
    await late.closed()
    await peers[0].finish()
    await target.open()


async def dropped_socket_keeps_its_slot(target: Target) -> None:
    peers = [await target.open() for _ in range(target.max_sessions)]
    await peers[0].drop()
    late = await target.connect(duplex="1")
    await late.send("session.update", session=AUTO)
    await late.error("resource_exhausted")
    await late.pause(target.grace_s + 1)
    await target.open()


async def bad_events(target: Target) -> None:
    peer = await target.open()
    await peer.send("nonsense")
    await peer.error("unknown_event")
    await peer.send_text('{"event_id": "x"}')
    await peer.error("bad_event")
    await peer.send_bytes(b"\x00\x01")
    await peer.error("invalid_json")
    await peer.alive()


async def oversized_event(target: Target) -> None:
    peer = await target.open()
    head = '{"type":"input_audio_buffer.append","audio":"'
    await peer.send_text(head + "A" * (15 * 2**20 + 1 - len(head) - 2) + '"}')
    await peer.error("event_too_large", 15)
    await peer.alive()


async def error_names_its_event(target: Target) -> None:
    peer = await target.open()
    for kind in ("nonsense", "response.cancel", "conversation.item.retrieve"):
        event_id = await peer.send(kind)
        event = await peer.get("error")
        equal(event["error"]["event_id"], event_id, "event_id of the error")


async def turn_detection_matrix(target: Target) -> None:
    bad = [
        {"turn_detection": {"type": "server_vad", "threshold": 0.15}},
        {"turn_detection": {"type": "server_vad", "idle_timeout_ms": 5}},
        {"turn_detection": {"type": "server_vad", "interrupt_response": False}},
        {"turn_detection": {"type": "server_vad"}, "overlap_policy": "listen_only"},
        {"turn_detection": {"type": "semantic_vad"}},
        {"overlap_policy": "barge_in_on_speech"},
    ]
    for session in bad:
        peer = await target.connect(duplex="1")
        await peer.send("session.update", session=session)
        await peer.error("unsupported_turn_detection")
        await peer.closed()
    peer = await target.open({**AUTO, "turn_detection": None})
    equal(peer.events[0]["session"]["overlap_policy"], "listen_only", "policy without a detector")


async def forbidden_updates(target: Target) -> None:
    peer = await target.open({**AUTO, "model": "m", "instructions": "Be brief."})
    before = peer.events[0]["session"]
    rows: list[tuple[dict[str, object], str]] = [
        ({"input_audio_format": "mp3"}, "unsupported_audio_format"),
        ({"turn_detection": {"type": "other"}}, "unsupported_turn_detection"),
        ({"extra_body": {"ref_audio_data": "x"}}, "invalid_duplex_runtime_config"),
        ({"model": "other"}, "model_update_unsupported"),
        ({"ref_audio": wav()}, "ref_audio_update_unsupported"),
        ({"instructions": "Be long."}, "instructions_update_unsupported"),
        ({"extra_body": {"context_max_units": 3}}, "sliding_window_update_unsupported"),
        ({"temperature": "hot"}, "invalid_session_config"),
    ]
    for session, code in rows:
        await peer.send("session.update", session=session)
        await peer.error(code)
    await answered(peer)
    await peer.send("session.update", session={"voice": "other"})
    await peer.error("voice_update_after_audio_unsupported")
    await peer.send("session.update", session={})
    after = (await peer.get("session.updated"))["session"]
    for key in ("input_audio_format", "turn_detection", "model", "instructions", "temperature", "voice"):
        equal(after[key], before[key], f"{key} after refused updates")


async def private_keys(target: Target) -> None:
    rows: list[tuple[dict[str, object], str]] = [
        ({"extra_body": {"duplex_scheduler_token_id": 1}}, "invalid_duplex_runtime_config"),
        ({"extra_body": {"duplex_window_size": 1}}, "invalid_duplex_runtime_config"),
        ({"ref_audio_path": "/etc/passwd"}, "unsupported_ref_audio_path"),
        ({"extra_body": {"tts_ref_audio_path": "x"}}, "unsupported_ref_audio_path"),
        ({"extra_body": {"sliding_window_mode": "other"}}, "invalid_sliding_window_config"),
        (
            {"extra_body": {"basic_window_low_tokens": 9000, "basic_window_high_tokens": 8000}},
            "invalid_sliding_window_config",
        ),
        ({"extra_body": {"context_max_units": 0}}, "invalid_sliding_window_config"),
    ]
    for session, code in rows:
        peer = await target.connect(duplex="1")
        await peer.send("session.update", session=session)
        await peer.error(code)
        await peer.closed()


async def warmup_session(target: Target) -> None:
    """A closed session frees its slot at once, however many there were."""
    for _ in range(target.max_sessions + 1):
        peer = await target.open(vllm_omni_warmup="1")
        await peer.finish()


async def keys_and_origins(target: Target) -> None:
    equal(await target.refused_status(), 401, "status without a key")
    wrong = {"Authorization": "Bearer wrong"}
    equal(await target.refused_status(headers=wrong), 401, "status with a wrong key")
    right = {"Authorization": f"Bearer {target.key}"}
    equal(await target.refused_status(headers=right, origin="https://evil.example"), 403, "status of a foreign origin")
    peer = await target.connect(headers=right, origin="https://good.example", duplex="1")
    await peer.send("session.update", session={**AUTO, "ref_audio": "http://127.0.0.1/x.wav"})
    await peer.error("invalid_session_config")
    by_protocol = ["realtime", f"openai-insecure-api-key.{target.key}"]
    peer = await target.connect(headers={}, subprotocols=by_protocol, duplex="1")
    equal(peer.subprotocol, "realtime", "subprotocol that is echoed")


async def voice_is_not_echoed(target: Target) -> None:
    peer = await target.connect(duplex="1")
    voice = wav(29_000)  # 1.2 MB of base64; servers take no more than 30 s
    await peer.send("session.update", session={**AUTO, "ref_audio": voice})
    await peer.until("session.updated", 15)
    for event in peer.events:
        require(len(json.dumps(event)) < 20_000, f"{event['type']} is large: the voice came back")


async def text_only(target: Target) -> None:
    peer = await target.open({**AUTO, "modalities": ["text"]})
    await answered(peer)
    text = "".join(event["delta"] for event in of_type(peer.events, "response.output_text.delta"))
    require(text, "no text came")
    equal(of_type(peer.events, "response.output_text.done")[0]["text"], text, "text.done")
    require(not of_type(peer.events, "response.output_audio.delta"), "audio came")


async def no_detector(target: Target) -> None:
    peer = await target.open({**AUTO, "turn_detection": {"type": "server_vad"}})
    await peer.append(loud(200))
    await peer.error("server_vad_unavailable")
    await peer.append(quiet(200))
    await peer.alive()


async def detector_in_auto_mode(target: Target) -> None:
    peer = await target.open({**AUTO, "turn_detection": {"type": "server_vad"}})
    await peer.append(loud(800))
    await peer.get("input_audio_buffer.speech_started")
    await peer.append(quiet(700))
    await peer.get("input_audio_buffer.speech_stopped")
    await peer.pause(0.3)
    require(not of_type(peer.events, "input_audio_buffer.committed"), "the detector committed in auto mode")


async def detector_in_turn_mode(target: Target) -> None:
    peer: Peer = await target.open({**TURN, "turn_detection": {"type": "server_vad"}})
    await peer.append(loud(800))
    await peer.get("input_audio_buffer.speech_started")
    await peer.append(quiet(700))
    events = await peer.until("response.done", 15)
    kinds = types(events)
    require(
        kinds.index("input_audio_buffer.speech_stopped") < kinds.index("input_audio_buffer.committed"),
        "speech_stopped comes before the commit",
    )


async def both_detectors(target: Target) -> None:
    await detector_in_auto_mode(target)
    await detector_in_turn_mode(target)


CASES = (
    Case(number=1, title="no first message", run=silent_client, waits=lambda target: target.first_message_s),
    Case(number=2, title="first frame is garbage, or an array", run=bad_first_frame),
    Case(number=3, title="session.update opens", run=open_by_update),
    Case(number=4, title="model in the query opens", run=autostart),
    Case(number=5, title="autostart=0 and an append first", run=other_first_event),
    Case(number=6, title="duplex=0", run=turn_handler),
    Case(number=7, title="one session too many", run=full_house),
    Case(
        number=8,
        title="a dropped socket keeps its slot for the grace time",
        run=dropped_socket_keeps_its_slot,
        profile="short",
        waits=lambda target: target.grace_s,
    ),
    Case(number=9, title="unknown and missing type", run=bad_events),
    Case(number=10, title="an event of 15 MiB and a byte", run=oversized_event),
    Case(number=11, title="errors name their event", run=error_names_its_event),
    Case(number=45, title="text-only modality", run=text_only),
    Case(number=46, title="turn_detection matrix", run=turn_detection_matrix),
    Case(number=47, title="server VAD in auto and in turn mode", run=both_detectors),
    Case(number=48, title="server VAD without its model", run=no_detector, profile="no-vad"),
    Case(number=52, title="each forbidden session.update", run=forbidden_updates),
    Case(number=53, title="private keys, paths, window errors", run=private_keys),
    Case(number=72, title="a closed session frees its slot at once", run=warmup_session),
    Case(number=82, title="key, Origin, reference address", run=keys_and_origins, profile="keyed"),
    Case(number=85, title="a large reference voice is not echoed", run=voice_is_not_echoed),
    Case(number=88, title="connect during warm-up", note="shown in tests/protocol/test_realtime_edge.py"),
    Case(number=91, title="a refusal before the first frame", run=flat_refusal_waits),
)
