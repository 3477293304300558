"""Sessions that the machine could not keep in time: refused, or queued where the dialect has a queue."""

import asyncio
from dataclasses import replace

from realtime_server import running, settings_of

from antiphon.client.conformance.cases_map import connect
from antiphon.client.conformance.target import Target
from antiphon.realtime.limits import Limits
from antiphon.serving.realtime.routes import realtime_hub
from antiphon.serving.realtime.scripted_engine import ScriptedEngine
from antiphon.serving.realtime.settings import Timeouts


class Machine:
    has_room = True


def play(scene):
    machine = Machine()
    settings = replace(settings_of("default"), limits=Limits(max_sessions=4), timeouts=Timeouts(queue_update_s=0.05))

    async def run():
        hub = realtime_hub(ScriptedEngine(), settings, has_room=lambda: machine.has_room)
        async with running(hub) as url:
            target = Target(url=url)
            await asyncio.wait_for(scene(machine, hub, target), 20)
            await target.finish(checks=True)
            for _ in range(200):
                if hub.num_sessions == hub.admission.num_taken == hub.admission.num_waiting == 0:
                    return
                await asyncio.sleep(0.01)
            raise AssertionError("a slot or a place was left behind")

    asyncio.run(run())


def test_a_session_too_many_for_the_machine_is_refused_and_the_others_go_on():
    async def scene(machine, hub, target):
        live = await target.open()
        machine.has_room = False
        refused = await target.connect()
        await refused.send("session.update", session={})
        error = await refused.get("error")
        assert error["error"]["code"] == "resource_exhausted"
        assert error["error"]["type"] == "rate_limit_error"
        assert hub.num_sessions == 1
        await live.send("session.heartbeat")
        await live.get("session.heartbeat_ack")
        machine.has_room = True
        await target.open()
        assert hub.num_sessions == 2

    play(scene)


def test_a_dialect_with_a_queue_waits_until_there_is_room():
    async def scene(machine, hub, target):
        machine.has_room = False
        peer = await connect(target)
        assert (await peer.get("session.queued"))["position"] == 1
        machine.has_room = True
        await peer.get("session.queue_done")
        assert hub.admission.num_taken == 1

    play(scene)
