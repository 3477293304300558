"""Faults that other servers were reported for, over real sockets; each case is named in its test.

Those that need no socket are in tests/unit/realtime/test_reported_faults.py.
"""

import asyncio
import json
import time
from contextlib import suppress
from dataclasses import replace
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
import websockets
from realtime_server import running, settings_of

from antiphon.client.conformance.cases_map import connect as connect_map
from antiphon.client.conformance.peer import Peer
from antiphon.client.conformance.sounds import loud
from antiphon.client.conformance.steps import answered
from antiphon.client.conformance.target import AUTO, Target
from antiphon.realtime.limits import Limits
from antiphon.serving.realtime.hub import Hub
from antiphon.serving.realtime.routes import UVICORN_OPTIONS
from antiphon.serving.realtime.scripted_app import scripted_hub

KEEPALIVE = {"ws_ping_interval": 0.2, "ws_ping_timeout": 0.5}


def play(scene, settings=None, **options):
    async def run():
        hub = scripted_hub(settings=settings)
        async with running(hub, **options) as url:
            target = Target(url=url, key="secret" if hub.settings.api_keys else None)
            await asyncio.wait_for(scene(hub, target), 40)
            await target.finish(checks=True)

    asyncio.run(run())


def limited(**limits):
    plain = settings_of("default")
    return replace(plain, limits=Limits(**limits))


# --- F. capacity


def test_c63_one_session_more_than_there_are_is_refused_at_once_or_told_its_place():
    async def scene(hub: Hub, target: Target) -> None:
        await target.open()
        began_s = time.monotonic()
        late = await target.connect(duplex="1")
        await late.send("session.update", session=AUTO)
        error = await late.error("resource_exhausted")
        assert "all 1 sessions" in error["error"]["message"]
        assert await late.closed() == 1013
        queued = await connect_map(target)
        assert (await queued.get("session.queued"))["position"] == 1
        assert time.monotonic() - began_s < 2

    play(scene, limited(max_sessions=1))


def test_c64_sockets_that_died_without_a_word_give_their_slots_back():
    async def scene(hub: Hub, target: Target) -> None:
        dead = [await target.open() for _ in range(3)]
        for peer in dead:
            peer._connection.transport.pause_reading()  # no pong will come, and no FIN
        assert hub.admission.num_taken == 3
        for _ in range(300):
            if hub.admission.num_taken == 0:
                break
            await asyncio.sleep(0.02)
        for peer in dead:
            await peer.drop()
        await answered(await target.open())

    play(scene, limited(max_sessions=3, disconnect_grace_s=0.2), **KEEPALIVE)


# --- J. reconnect, slow clients


def test_c92_a_takeover_that_was_given_up_halfway_detaches_no_newer_socket():
    async def scene(hub: Hub, target: Target) -> None:
        first = await target.open()
        attempt = await target.resume(first)
        await attempt.drop()
        await asyncio.sleep(0.1)
        (live,) = hub.sessions()
        if live.session.life.value == "detached":  # the attempt had been attached, its client had the new token
            return
        await first.alive()

    play(scene)


def test_c92_of_many_resumes_with_one_token_one_lives_and_is_not_detached_by_the_others():
    async def scene(hub: Hub, target: Target) -> None:
        first = await target.open()
        await first.drop()
        others = await asyncio.gather(*(target.resume(first) for _ in range(5)))
        await asyncio.sleep(0.3)
        resumed = [peer for peer in others if any(event["type"] == "session.resumed" for event in peer.events)]
        refused = [event["error"]["code"] for peer in others for event in peer.events if event["type"] == "error"]
        assert (len(resumed), refused) == (1, ["invalid_resume_token"] * 4)
        await resumed[0].alive()

    play(scene)


def test_c93_sound_that_was_kept_while_the_line_was_down_is_taken_up_to_a_bound():
    async def scene(hub: Hub, target: Target) -> None:
        first = await target.open()
        await first.drop()
        second = await target.resume(first)
        await second.get("session.resumed")
        for _ in range(15):
            await second.append(loud(200))
        await second.commit()
        await second.get("response.done", timeout_s=10)
        (live,) = hub.sessions()
        assert live.session.state.total.num_units >= 3
        for _ in range(3):
            await second.append(loud(60_000))
        await second.error("input_backpressure")
        await second.alive()

    play(scene, limited(max_pending_input_bytes_per_session=8 * 2**20))


def test_c98_a_late_pong_cuts_nobody_off_and_a_missing_one_does():
    async def scene(hub: Hub, target: Target) -> None:
        peer = await target.open()
        transport = peer._connection.transport
        transport.pause_reading()
        await asyncio.sleep(0.4)
        transport.resume_reading()
        await asyncio.sleep(0.4)
        await peer.alive()
        transport.pause_reading()
        await asyncio.sleep(1.5)
        assert [live.session.life.value for live in hub.sessions()] == ["detached"]
        await peer.drop()

    play(scene, **KEEPALIVE)
    assert UVICORN_OPTIONS["ws_ping_timeout"] >= 60  # pongs of 30 s were seen


# --- K. security


def test_c27_a_frame_of_20_mb_is_an_end_with_a_reason_and_the_server_lives():
    async def scene(hub: Hub, target: Target) -> None:
        peer = await target.open()
        with suppress(websockets.ConnectionClosed):  # the end may come while the rest is still being sent
            await peer.send_text("x" * 20 * 10**6)
        assert await peer.closed() == 1009
        await answered(await target.open())

    play(scene)


def test_c107_frames_are_never_inflated():
    async def scene(hub: Hub, target: Target) -> None:
        async with websockets.connect(f"{target.url}/v1/realtime?duplex=1", compression="deflate") as socket:
            assert socket.protocol.extensions == []

    play(scene)


PATHS = [
    "/v1/realtime",
    "/v1/duplex",
    "//v1/realtime",
    "/v1/realtime/",
    "/v1%2Frealtime",
    "/V1/REALTIME",
    "/v1/realtime.",
]


@pytest.mark.parametrize("path", PATHS)
def test_c108_no_path_leads_in_without_the_key(path):
    async def scene(hub: Hub, target: Target) -> None:
        for headers in ({}, {"Authorization": "Bearer wrong"}):
            with pytest.raises(websockets.InvalidStatus) as refused:
                await Peer.connect(target.url + path, headers=headers, duplex="1")
            assert refused.value.response.status_code in (401, 403, 404)
        assert hub.admission.num_taken == 0

    play(scene, settings_of("keyed"))


def test_c108_the_key_opens_by_header_and_by_subprotocol_and_is_not_echoed():
    async def scene(hub: Hub, target: Target) -> None:
        await (await target.open()).finish()
        offered = ["realtime", "openai-insecure-api-key.secret"]
        peer = await Peer.connect(f"{target.url}/v1/realtime", subprotocols=offered, model="m")
        await peer.get("session.created")
        assert peer.subprotocol == "realtime"
        peer.can_close_session = False
        await peer.finish()

    play(scene, settings_of("keyed"))


@pytest.mark.parametrize("path", ["/v1/models"])
def test_c108_the_listing_asks_for_the_key_too(path):
    async def scene(hub: Hub, target: Target) -> None:
        address = target.url.replace("ws://", "http://") + path

        def status(headers: dict[str, str]) -> int:
            try:
                with urlopen(Request(address, headers=headers), timeout=5) as answer:
                    return answer.status
            except HTTPError as error:
                error.close()
                return error.code

        assert await asyncio.to_thread(status, {}) == 401
        assert await asyncio.to_thread(status, {"Authorization": "Bearer secret"}) == 200

    play(scene, settings_of("keyed"))


FRAMES = [
    "{",
    "\x00",
    '{"type":"input_audio_buffer.append","audio":"AAAA","format":{"type":"audio/opus"}}',
    '{"type":"input_audio_buffer.append","audio":"not base64"}',
    '{"type":"input_audio_buffer.append","audio":"AAAA","video_frames":["/etc/passwd"]}',
    '{"type":"session.update","session":{"ref_audio":"/etc/passwd"}}',
    '{"type":"session.update","session":{"temperature":[1]}}',
    '{"type":"conversation.item.truncate","item_id":{},"audio_end_ms":"x"}',
    '{"type":"response.create","response":[]}',
    '{"type":"' + "x" * 5000 + '"}',
    '{"type":' + "[" * 5000 + "]" * 5000 + "}",
]


@pytest.mark.parametrize("frame", FRAMES, ids=range(len(FRAMES)))
def test_c112_an_error_says_nothing_about_the_inside(frame):
    async def scene(hub: Hub, target: Target) -> None:
        peer = await target.open()
        await peer.send_text(frame)
        error = (await peer.get("error"))["error"]
        text = json.dumps(error)
        for inside in (
            "Traceback",
            "0x",
            "/src/",
            "/usr/",
            "antiphon",
            "msgspec",
            "numpy",
            "<class",
            "object at",
            ".py",
        ):
            assert inside not in text
        assert len(text) < 700
        await peer.alive()

    play(scene)
