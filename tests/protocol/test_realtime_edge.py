"""What happens at the edge only: warm-up, draining, a mistake of our own, a vanished client."""

import asyncio
import json
from dataclasses import replace

import pytest
from realtime_server import running, settings_of

from antiphon.client.conformance.peer import Peer
from antiphon.client.conformance.sounds import loud
from antiphon.client.conformance.target import AUTO, Target
from antiphon.realtime.session import Session
from antiphon.serving.realtime.hub import Hub
from antiphon.serving.realtime.scripted_app import scripted_hub


def play(scene, settings=None):
    async def run():
        hub = scripted_hub(settings=settings)
        async with running(hub) as url:
            target = Target(url=url)
            await asyncio.wait_for(scene(hub, target), 20)
            await target.finish(checks=True)

    asyncio.run(run())


async def gone(hub: Hub) -> None:
    for _ in range(200):
        if hub.num_sessions == 0 and hub.admission.num_taken == 0:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("a session was left behind")


def test_a_socket_is_accepted_during_warm_up_and_served_after_it():
    async def scene(hub: Hub, target: Target) -> None:
        hub.is_warm.clear()
        peer = await target.connect(duplex="1")
        await peer.send("session.update", session=AUTO)
        assert await peer.pause(0.2) == []
        warmup = await target.open(vllm_omni_warmup="1")
        hub.is_warm.set()
        await peer.until("session.updated")
        await warmup.finish()

    play(scene)


def test_draining_tells_everybody_and_admits_nobody():
    async def scene(hub: Hub, target: Target) -> None:
        peer = await target.open()
        draining = asyncio.create_task(hub.drain(0.3))
        warning = await peer.get("session.warning")
        assert warning["details"] == {"seconds_left": 0.3}
        late = await target.connect(duplex="1")
        await late.send("session.update", session=AUTO)
        await late.error("resource_exhausted")
        assert (await peer.get("session.closed"))["reason"] == "server_shutdown"
        await draining
        assert hub.num_sessions == 0

    play(scene)


def test_a_mistake_of_ours_ends_one_session_and_not_its_neighbour(monkeypatch, caplog):
    async def scene(hub: Hub, target: Target) -> None:
        victim, neighbour = await target.open(), await target.open()
        broken = hub.sessions()[0].session
        receive = Session.receive

        def fails(self, event, now_s):
            if self is broken:
                raise ZeroDivisionError
            receive(self, event, now_s)

        monkeypatch.setattr(Session, "receive", fails)
        await victim.send("session.heartbeat")
        await victim.error("realtime_input_failed")
        assert (await victim.get("session.closed"))["reason"] == "transport_error"
        await neighbour.alive()

    play(scene)
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize("moment", ["at once", "after the update", "while the model speaks"])
def test_clients_that_vanish_leave_nothing(moment):
    plain = settings_of("default")
    settings = replace(plain, limits=replace(plain.limits, disconnect_grace_s=0.05, max_sessions=32))

    async def scene(hub: Hub, target: Target) -> None:
        for _ in range(20):
            peer = await Peer.connect(f"{target.url}/v1/realtime", duplex="1")
            if moment != "at once":
                await peer.send("session.update", session=AUTO)
                await peer.until("session.updated")
            if moment == "while the model speaks":
                await peer.append(loud(1200))
                await peer.commit()
                await peer.get("response.speak")
            await peer.drop()
        await gone(hub)
        tasks = [task for task in asyncio.all_tasks() if task.get_name().startswith("session ")]
        assert tasks == []

    play(scene, settings)


def test_a_large_frame_does_not_hold_up_the_neighbours():
    async def scene(hub: Hub, target: Target) -> None:
        busy, other = await target.open({}), await target.open()
        await busy.append(loud(180_000))
        await other.alive()
        await busy.alive()

    play(scene)


def test_other_deployments_refuse_flatly():
    async def scene(hub: Hub, target: Target) -> None:
        for path, code in (("/v1/duplex", 1000), ("/v1/realtime", 1008)):
            peer = await target.connect(path, duplex="1")
            event = await peer.get("error")
            assert (event["code"], type(event["error"])) == ("unsupported", str)
            assert await peer.closed() == code

    play(scene, replace(settings_of("default"), is_duplex=False))


def test_several_api_workers_refuse():
    async def scene(hub: Hub, target: Target) -> None:
        peer = await target.connect()
        assert (await peer.get("error"))["code"] == "multi_api_duplex_unsupported"

    play(scene, replace(settings_of("default"), num_api_workers=2))


def test_the_alias_is_always_duplex():
    async def scene(hub: Hub, target: Target) -> None:
        peer = await target.connect("/v1/duplex", duplex="0")
        await peer.send_text(json.dumps({"type": "session.update", "session": AUTO}))
        await peer.until("session.updated")

    play(scene)


def test_a_flood_of_handshakes_is_refused_with_429():
    async def scene(hub: Hub, target: Target) -> None:
        await target.connect()
        assert await target.refused_status() == 429

    play(scene, replace(settings_of("default"), max_handshakes_per_minute=1))
