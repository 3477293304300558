"""`DuplexClient` against the scripted server: turns, interruptions, lost connections, refusals, the end."""

import asyncio
import json
from dataclasses import replace

import pytest
from duplex_scenes import ANSWER, ANSWER_BYTES, KeptConnect, ask, collected, play, preset, silence, speech
from realtime_server import settings_of

from antiphon.client import (
    DuplexClient,
    DuplexConnectionError,
    DuplexProtocolError,
    DuplexSessionClosedError,
    ReconnectPolicy,
    SessionConfig,
    chunk_period_ms,
)
from antiphon.realtime.limits import Limits
from antiphon.realtime.script import Answer, Piece, Script

QUICK = ReconnectPolicy(max_attempts=4, backoff_s=(0.01, 0.02))
LONG = Script(answers=(Answer(pieces=tuple(Piece(f"word{i} ", 500) for i in range(20))),), gap_ms=20)


def sequence_numbers(collector):
    return [event["server_event_seq"] for event in collector.events if "server_event_seq" in event]


def test_a_turn_is_heard_spoken_and_acknowledged():
    async def scene(hub, url):
        async with DuplexClient(url, config=preset(extra_body={"return_stage_metrics": True})) as client:
            collector, task = await collected(client)
            assert client.resume_token
            await ask(client)
            handles = []
            async for handle in client.responses():
                handles.append(handle)
                if handle.decision == "speak":
                    assert not handle.finished
                    break
            sound = b"".join([chunk async for chunk in handles[-1].audio()])
            await handles[-1].wait(5)
            waiting = client.wait_for("playback.acknowledged", timeout_s=5)
            await client.ack_playback(handles[-1].played_ms, response_id=handles[-1].response_id)
            acknowledged = await waiting
            timing = collector.timing_summary(after_s=0, response_id=handles[-1].response_id)
        await task
        assert (handles[0].decision, handles[0].response_id, handles[0].finished) == ("listen", None, True)
        assert len(sound) == ANSWER_BYTES
        assert handles[-1].transcript == handles[-1].text == ANSWER
        assert handles[-1].done_event.status == "completed"
        assert acknowledged.raw["event"]["committed_ms"] == 4000
        assert collector.errors() == []
        assert chunk_period_ms(collector.events) == 1000
        numbers = sequence_numbers(collector)
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert collector.events[-1]["type"] == "session.closed"
        assert timing["audio_output"]["chunk_count"] == 4
        assert timing["audio_output"]["chunk_duration_ms"]["mean"] == 1000
        assert timing["request_metrics"]["audio_duration_ms"] == 4000
        assert "0" in timing["stages"]

    play(scene)


@pytest.mark.parametrize("num_cuts", [1, 3])
def test_a_socket_cut_in_an_answer_loses_no_sound_and_doubles_none(num_cuts):
    async def scene(hub, url):
        connect = KeptConnect()
        async with DuplexClient(url, config=preset(), connect=connect, reconnect=QUICK) as client:
            collector, task = await collected(client)
            token = client.resume_token
            await ask(client)
            handle = await speaking(client)
            sound = b""
            async for chunk in handle.audio():
                sound += chunk
                if len(connect.made) <= num_cuts:
                    connect.made[-1].abort()
            assert client.resume_token not in (None, token)
            await ask(client)
            second = await speaking(client)
            sound_of_second = b"".join([chunk async for chunk in second.audio()])
        await task
        assert len(sound) == len(sound_of_second)
        assert len(sound) == 20 * 24_000
        assert bytes(collector.response_audio[handle.response_id]) == sound
        kinds = [event["type"] for event in collector.events]
        assert kinds.count("connection.resumed") == kinds.count("session.resumed") == num_cuts
        assert kinds.index("connection.resumed") + 1 == kinds.index("session.resumed")
        numbers = sequence_numbers(collector)
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))

    play(scene, LONG)


def test_what_is_sent_while_the_connection_is_away_waits_for_it():
    async def scene(hub, url):
        connect = KeptConnect()
        async with DuplexClient(url, config=preset(), connect=connect, reconnect=QUICK) as client:
            connect.made[0].abort()
            await ask(client)
            handle = await speaking(client)
            assert len(b"".join([chunk async for chunk in handle.audio()])) == ANSWER_BYTES

    play(scene)


def test_cancel_ends_the_answer_and_a_second_one_is_refused():
    async def scene(hub, url):
        async with DuplexClient(url, config=preset()) as client:
            await ask(client)
            handle = await speaking(client)
            async for _ in handle.audio():
                if not handle.finished:
                    await client.cancel_response(handle.response_id)
                    break
            await handle.wait(5)
            assert handle.done_event.status == "cancelled"
            waiting = client.wait_for("session.closed", timeout_s=5)
            await client.cancel_response()
            with pytest.raises(DuplexProtocolError) as refused:
                await waiting
            assert refused.value.code == "response_not_active"

    play(scene, LONG)


def test_barge_in_keeps_what_was_heard_only():
    async def scene(hub, url):
        async with DuplexClient(url, config=preset()) as client:
            await ask(client)
            handle = await speaking(client)
            async for _ in handle.audio():
                await client.ack_playback(handle.played_ms, response_id=handle.response_id)
                await client.barge_in()
                break
            await handle.wait(5)
            reason = handle.done_event.raw["response"]["status_details"]["reason"]
            assert (handle.done_event.status, reason) == ("cancelled", "barge_in")

    play(scene, LONG)


def test_errors_of_the_opening_carry_their_code():
    async def scene(hub, url):
        for address, config, code in (
            (url, preset(extra_body={"duplex_scheduler_token_id": 1}), "invalid_duplex_runtime_config"),
            (f"{url}/v1/realtime?duplex=0", preset(), "unsupported"),
            (url, SessionConfig(overlap_policy="barge_in_on_speech"), "unsupported_turn_detection"),
        ):
            with pytest.raises(DuplexProtocolError) as refused:
                async with DuplexClient(address, config=config):
                    pass
            assert refused.value.code == code

    play(scene)


def test_one_session_too_many_is_refused_by_code():
    async def scene(hub, url):
        async with DuplexClient(url, config=preset()):
            with pytest.raises(DuplexProtocolError) as refused:
                async with DuplexClient(url, config=preset()):
                    pass
            assert refused.value.code == "resource_exhausted"

    plain = settings_of("default")
    play(scene, settings=replace(plain, limits=replace(plain.limits, max_sessions=1)))


def test_a_missing_key_is_told_as_401_and_a_good_one_opens():
    async def scene(hub, url):
        with pytest.raises(DuplexConnectionError, match="401"):
            async with DuplexClient(url, config=preset()):
                pass
        async with DuplexClient(url, config=preset(), api_key="secret") as client:
            assert client.session_id.startswith("sess_")

    play(scene, settings=settings_of("keyed"))


def test_nobody_listening_is_a_connection_error():
    async def run():
        with pytest.raises(DuplexConnectionError, match="no connection"):
            async with DuplexClient("ws://127.0.0.1:9", config=preset()):
                pass

    asyncio.run(run())


def test_an_error_names_the_event_and_the_session_goes_on():
    async def scene(hub, url):
        async with DuplexClient(url, config=preset()) as client:
            events = client.events()
            event_id = await client.send({"type": "nonsense"})
            error = await until(events, "error")
            assert (error.code, error.related_event_id) == ("unknown_event", event_id)
            await client.send({"type": "session.heartbeat"})
            await until(events, "session.heartbeat_ack")
            with pytest.raises(DuplexProtocolError):
                async for _ in client.responses():
                    pass

    play(scene)


def test_heartbeats_go_on_after_a_resume():
    async def scene(hub, url):
        connect = KeptConnect()
        options = {"connect": connect, "reconnect": QUICK, "heartbeat_interval_s": 0.02}
        async with DuplexClient(url, config=preset(), **options) as client:
            await client.wait_for("session.heartbeat_ack", timeout_s=5)
            connect.made[0].abort()
            await client.wait_for("session.resumed", timeout_s=5)
            await client.wait_for("session.heartbeat_ack", timeout_s=5)

    play(scene)


def test_closing_in_an_answer_ends_it_first_and_frees_the_place_at_once():
    async def scene(hub, url):
        async with DuplexClient(url, config=preset()) as client:
            collector, task = await collected(client)
            await ask(client)
            handle = await speaking(client)
        await task
        kinds = [event["type"] for event in collector.events]
        assert handle.finished
        assert kinds[-1] == "session.closed"
        assert collector.events[kinds.index("response.done")]["response"]["status"] == "cancelled"
        assert hub.num_sessions == 0

    play(scene, LONG)


def test_an_exception_in_the_block_frees_the_place_too():
    async def scene(hub, url):
        with pytest.raises(ZeroDivisionError):
            async with DuplexClient(url, config=preset()):
                raise ZeroDivisionError

    play(scene)


def test_a_taken_over_session_ends_and_is_not_fought_for():
    async def scene(hub, url):
        async with DuplexClient(url, config=preset(), reconnect=QUICK) as first:
            events = first.events()
            connect = KeptConnect()
            second = await connect(first.url)
            ask = {"type": "session.resume", "session_id": first.session_id, "resume_token": first.resume_token}
            await second.send(json.dumps({**ask, "last_received_server_event_seq": 1}))
            with pytest.raises(DuplexSessionClosedError, match="another client"):
                async for _ in events:
                    pass
            assert "session.resumed" in await second.recv()
            await second.send('{"type":"session.close"}')
            await second.close()

    play(scene)


def test_a_server_that_drains_says_so_and_ends_the_session():
    async def scene(hub, url):
        async with DuplexClient(url, config=preset(), reconnect=QUICK) as client:
            events = client.events()
            draining = asyncio.create_task(hub.drain(0.1))
            warning = await until(events, "session.warning")
            assert warning.raw["code"] == "server_going_away"
            with pytest.raises(DuplexSessionClosedError, match="server_shutdown"):
                async for _ in events:
                    pass
            await draining
            with pytest.raises(DuplexSessionClosedError):
                await client.commit()

    play(scene)


def test_without_a_way_back_the_loss_is_told_to_everyone_who_waits():
    async def scene(hub, url):
        connect = KeptConnect()
        async with DuplexClient(url, config=preset(), connect=connect, reconnect=None) as client:
            events = client.events()
            await ask(client)
            handle = await speaking(client)
            connect.made[0].abort()
            with pytest.raises(DuplexSessionClosedError, match="lost"):
                await handle.wait(5)
            with pytest.raises(DuplexSessionClosedError):
                async for _ in events:
                    pass

    plain = settings_of("default")
    limits = replace(plain.limits, disconnect_grace_s=0.05)
    play(scene, LONG, replace(plain, limits=limits))


def test_a_session_that_expired_meanwhile_is_not_asked_for_again():
    async def scene(hub, url):
        connect = KeptConnect()
        slow = ReconnectPolicy(max_attempts=5, backoff_s=(0.3, 0.3))
        async with DuplexClient(url, config=preset(), connect=connect, reconnect=slow) as client:
            events = client.events()
            connect.made[0].abort()
            with pytest.raises(DuplexSessionClosedError, match="no such session"):
                async for _ in events:
                    pass
        assert len(connect.made) == 2

    plain = settings_of("default")
    play(scene, settings=replace(plain, limits=Limits(disconnect_grace_s=0.05)))


def test_turn_mode_answers_the_commit_that_asks():
    async def scene(hub, url):
        async with DuplexClient(url, config=preset(auto_response=False)) as client:
            await client.stream_pcm(speech(1.5), realtime=False)
            await client.commit(create_response=True)
            assert (await spoken(client)).transcript == ANSWER

    play(scene)


def test_a_text_session_has_words_and_no_sound():
    async def scene(hub, url):
        async with DuplexClient(url, config=preset(modalities=("text",))) as client:
            await ask(client)
            handle = await speaking(client)
            assert [chunk async for chunk in handle.audio()] == []
            assert handle.text == ANSWER

    play(scene)


def test_silence_gives_moments_of_listening():
    async def scene(hub, url):
        async with DuplexClient(url, config=preset()) as client:
            await client.stream_pcm(silence(2), realtime=False)
            handles = []
            async for handle in client.responses():
                handles.append((handle.decision, handle.response_id, handle.finished))
                if len(handles) == 2:
                    break
            assert handles == [("listen", None, True)] * 2

    play(scene)


def test_a_reader_that_falls_behind_loses_the_oldest_events_and_the_session_lives():
    async def scene(hub, url):
        async with DuplexClient(url, config=preset()) as client:
            lazy = client.events()
            for _ in range(1100):
                beat = client.wait_for("session.heartbeat_ack", timeout_s=5)
                await client.send({"type": "session.heartbeat"})
                await beat
            assert lazy.num_dropped >= 1100 - 1024
            await ask(client)
            assert (await spoken(client)).transcript == ANSWER

    play(scene)


async def speaking(client):
    async for handle in client.responses():
        if handle.decision == "speak":
            return handle
    raise AssertionError("no response was spoken")


async def spoken(client):
    handle = await speaking(client)
    await handle.wait(5)
    return handle


async def until(events, kind):
    async for event in events:
        if event.type == kind:
            return event
    raise AssertionError(f"no {kind} came")


def test_a_client_that_stops_reading_loses_its_session_and_is_told_when_it_reads_again():
    class Deaf(KeptConnect):
        async def __call__(self, url):
            transport = await super().__call__(url)
            self.may_read = asyncio.Event()
            self.may_read.set()
            receive = transport.recv

            async def recv():
                await self.may_read.wait()
                return await receive()

            transport.recv = recv
            return transport

    async def scene(hub, url):
        connect = Deaf()
        async with DuplexClient(url, config=preset(), connect=connect, reconnect=QUICK) as client:
            events = client.events()
            await ask(client)
            await speaking(client)
            connect.may_read.clear()
            while hub.num_sessions:
                await asyncio.sleep(0.02)
            connect.may_read.set()
            with pytest.raises(DuplexSessionClosedError):
                async for _ in events:
                    pass

    endless = Script(answers=(Answer(pieces=tuple(Piece("on ", 4000) for _ in range(400))),), gap_ms=1)
    play(scene, endless, settings_of("small-output"))
