"""What a client of `map.realtime` that is not OpenBMB's SDK may do before its session is open."""

import asyncio
from dataclasses import replace

import pytest
from realtime_server import running, settings_of

from antiphon.client.conformance.cases_map import connect, open_map
from antiphon.client.conformance.target import Target
from antiphon.realtime.limits import Limits
from antiphon.serving.realtime.hub import Hub
from antiphon.serving.realtime.scripted_app import scripted_hub
from antiphon.serving.realtime.settings import Timeouts


def play(scene, *, max_sessions=1, queue_wait_s=2.0):
    plain = settings_of("default")
    settings = replace(
        plain,
        limits=Limits(max_sessions=max_sessions, queue_wait_s=queue_wait_s),
        timeouts=Timeouts(first_message_s=0.3, queue_update_s=0.05),
    )

    async def run():
        hub = scripted_hub(settings=settings)
        async with running(hub) as url:
            target = Target(url=url)
            await asyncio.wait_for(scene(hub, target), 20)
            await target.finish(checks=True)
            for _ in range(200):
                if hub.num_sessions == hub.admission.num_taken == hub.admission.num_waiting == 0:
                    return
                await asyncio.sleep(0.01)
            raise AssertionError("a slot or a place was left behind")

    asyncio.run(run())


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("{", "invalid_json"),
        ("[]", "bad_event"),
        ('{"type":"session.update","session":{}}', "unknown_event"),
        ('{"type":"input.append","input":{"audio":"AAAAAA=="}}', "bad_event"),
        ('{"type":"session.init","payload":{"config":{"temperature":"warm"}}}', "bad_event"),
        (b"binary", "invalid_json"),
        (None, "config_timeout"),
    ],
)
def test_a_first_frame_that_opens_nothing_is_one_error_and_the_end(frame, code):
    async def scene(hub: Hub, target: Target) -> None:
        peer = await connect(target)
        await peer.get("session.queue_done")
        assert hub.admission.num_taken == 1
        if isinstance(frame, bytes):
            await peer.send_bytes(frame)
        elif frame is not None:
            await peer.send_text(frame)
        await peer.error(code)
        assert await peer.closed() == 1008

    play(scene)


def test_an_unknown_mode_is_refused_by_name():
    async def scene(hub: Hub, target: Target) -> None:
        peer = await target.connect(model="m", mode="smell", subprotocols=["map.realtime"])
        assert "audio, video" in (await peer.error("invalid_session_config"))["error"]["message"]

    play(scene)


@pytest.mark.parametrize("moment", ["queued", "asked", "opened"])
@pytest.mark.parametrize("how", ["close", "drop"])
def test_a_client_may_leave_at_any_moment(moment, how):
    async def scene(hub: Hub, target: Target) -> None:
        first = await open_map(target)
        peer = await connect(target)
        await peer.get("session.queued")
        if moment != "queued":
            await first.finish()
            await peer.get("session.queue_done")
        if moment == "opened":
            await peer.send("session.init")
            await peer.get("session.created")
        if how == "close":
            await peer.send("session.close", reason="user_stop")
            assert (await peer.get("session.closed"))["reason"] == "user_stop"
            assert await peer.closed() == 1000
        else:
            await peer.drop()
        await first.finish()
        await (await open_map(target)).finish()

    play(scene)


def test_an_opening_that_comes_too_early_is_kept():
    async def scene(hub: Hub, target: Target) -> None:
        first = await open_map(target)
        eager, impatient = await connect(target), await connect(target)
        await eager.send("session.init", payload={"system_prompt": "Be brief."})
        for _ in range(2):
            await impatient.send("session.init", payload={})
        await impatient.error("bad_event")
        await first.finish()
        await eager.get("session.created")
        (live,) = hub.sessions()
        assert live.session.state.settings.instructions == "Be brief."

    play(scene)


def test_the_queue_is_told_when_it_moves_on_and_when_the_server_goes():
    async def scene(hub: Hub, target: Target) -> None:
        first = await open_map(target)
        waiting = [await connect(target) for _ in range(2)]
        assert [(await peer.get("session.queued"))["position"] for peer in waiting] == [1, 2]
        await waiting[0].drop()
        update = await waiting[1].get(lambda event: event.get("position") == 1)
        assert update["type"] == "session.queue_update"
        draining = asyncio.create_task(hub.drain(0.1))
        await waiting[1].error("resource_exhausted")
        assert await waiting[1].closed() == 1013
        assert (await first.get("session.closed"))["reason"] == "server_shutdown"
        await draining

    play(scene)
