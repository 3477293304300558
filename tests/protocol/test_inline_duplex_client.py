"""`InlineDuplexClient`: the same session without a socket."""

import asyncio
from dataclasses import replace

import pytest
from duplex_scenes import ANSWER, ANSWER_BYTES, ask, collected, preset

from antiphon.client import DuplexConnectionError, DuplexProtocolError, DuplexSessionClosedError, InlineDuplexClient
from antiphon.core.errors import CapacityError, StateError
from antiphon.serving.realtime.duplex_omni import DuplexOmni
from antiphon.serving.realtime.scripted_app import scripted_settings
from antiphon.serving.realtime.scripted_engine import ScriptedEngine


def play(scene, engine=None, settings=None):
    async def run():
        omni = DuplexOmni(engine or ScriptedEngine(), settings or scripted_settings())
        try:
            await asyncio.wait_for(scene(omni), 20)
        finally:
            await omni.close()

    asyncio.run(run())


def test_a_turn_is_heard_and_spoken():
    async def scene(omni):
        async with InlineDuplexClient(omni, model="scripted", config=preset()) as client:
            collector, task = await collected(client)
            assert client.session_info["capabilities"]["chunk_period_ms"] == 1000
            await ask(client)
            async for handle in client.responses():
                if handle.decision == "speak":
                    break
            sound = b"".join([chunk async for chunk in handle.audio()])
            await handle.wait(5)
            acknowledged = client.wait_for("playback.acknowledged", timeout_s=5)
            await client.ack_playback(handle.played_ms, response_id=handle.response_id)
            await acknowledged
        await task
        assert (len(sound), handle.text) == (ANSWER_BYTES, ANSWER)
        assert collector.errors() == []
        assert collector.events[-1]["type"] == "session.closed"
        assert omni.get_session(client.session_id) is None

    play(scene)


def test_settings_are_refused_by_the_codes_of_the_wire():
    async def scene(omni):
        config = preset(extra_body={"duplex_scheduler_token_id": 1})
        with pytest.raises(DuplexProtocolError) as refused:
            async with InlineDuplexClient(omni, config=config):
                pass
        assert refused.value.code == "invalid_duplex_runtime_config"

    play(scene)


def test_an_error_names_the_event():
    async def scene(omni):
        async with InlineDuplexClient(omni, config=preset()) as client:
            events = client.events()
            event_id = await client.send({"type": "nonsense"})
            async for event in events:
                if event.type == "error":
                    break
            assert (event.code, event.related_event_id) == ("unknown_event", event_id)

    play(scene)


def test_an_engine_that_refuses_is_named():
    class Full(ScriptedEngine):
        async def open(self, session_id, settings, deliver):
            raise CapacityError("no slot is free")

    async def scene(omni):
        with pytest.raises(DuplexProtocolError, match="no slot is free"):
            async with InlineDuplexClient(omni, config=preset()):
                pass

    play(scene, Full())


def test_an_engine_that_does_not_answer_is_given_up():
    class Stuck(ScriptedEngine):
        async def open(self, session_id, settings, deliver):
            await asyncio.sleep(60)

    async def scene(omni):
        with pytest.raises(DuplexConnectionError, match=r"within 0\.05 s"):
            async with InlineDuplexClient(omni, config=preset(), handshake_timeout_s=0.05):
                pass

    play(scene, Stuck())


def test_closing_the_host_ends_its_sessions_and_says_so():
    async def scene(omni):
        async with InlineDuplexClient(omni, config=preset()) as client:
            events = client.events()
            await omni.close()
            with pytest.raises(DuplexSessionClosedError, match="server_shutdown"):
                async for _ in events:
                    pass

    play(scene)


def test_a_session_is_found_described_and_detached():
    settings = scripted_settings()
    limits = replace(settings.limits, disconnect_grace_s=0.05)

    async def scene(omni):
        session = await omni.open_session({"extra_body": {"auto_response": True}})
        assert omni.get_session(session.id) is session
        assert session.capabilities["supports_barge_in"] is True
        assert (session.lease_generation, session.closed) == (1, False)
        omni.detach_session(session.id)
        assert omni.get_session(session.id) is None
        while not session.closed:
            await asyncio.sleep(0.01)
        with pytest.raises(StateError):
            await session.submit({"type": "session.heartbeat"})

    play(scene, settings=replace(settings, limits=limits))
