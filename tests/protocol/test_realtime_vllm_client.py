"""vLLM-Omni's own `DuplexClient`, unmodified, against a scripted server: the D rows of specification section 22.1.

Conformance case 73; cases C92 and C94 as that client meets them.
"""

import asyncio
import json
import time
from base64 import b64encode
from dataclasses import replace

import pytest
import websockets
from realtime_server import settings_of
from vllm_omni_client import ANSWER, ANSWER_BYTES, client_module, play, speech

from antiphon.client.conformance.sounds import png, tone
from antiphon.serving.realtime.hub import Hub
from antiphon.wire.realtime.errors import RealtimeError

pytestmark = pytest.mark.timeout(90)


@pytest.fixture(scope="module")
def duplex():
    return client_module()


@pytest.fixture(scope="module")
def preset():
    return client_module("minicpmo_4_5").create_duplex_session_config


class Kept:
    """A `connect=` that keeps its sockets, and may have one break when it has read an event of a certain type."""

    def __init__(self, breaks_at=None):
        self.made = []
        self._breaks_at = breaks_at

    async def __call__(self, url):
        socket = await websockets.connect(url, max_size=None)
        self.made.append(socket)
        return self

    async def send(self, text):
        await self.made[-1].send(text)

    async def recv(self):
        text = await self.made[-1].recv()
        if self._breaks_at is not None and f'"type":"{self._breaks_at}"' in text:
            self._breaks_at = None
            self.cut()
            raise OSError("broken")
        return text

    async def close(self):
        await self.made[-1].close()

    def cut(self):
        self.made[-1].transport.abort()


async def ask(client):
    await client.stream_pcm(speech(1.5), realtime=False)
    await client.commit()


async def speaking(client):
    async for handle in client.responses():
        if handle.decision == "speak":
            return handle
    raise AssertionError("no response was spoken")


async def collecting(duplex, client):
    collector = duplex.EventCollector()
    task = asyncio.create_task(collector.consume(client))
    await asyncio.sleep(0)
    return collector, task


def numbers(collector):
    return [event["server_event_seq"] for event in collector.events if "server_event_seq" in event]


def is_gapless(found):
    return found == list(range(found[0], found[0] + len(found)))


def test_d1_a_turn_is_heard_answered_and_acknowledged(duplex, preset):
    async def scene(hub, url):
        config = preset(extra_body={"return_stage_metrics": True})
        async with duplex.DuplexClient(url, model="minicpm-o-4.5", config=config) as client:
            collector, task = await collecting(duplex, client)
            assert client.resume_token
            await client.stream_pcm(speech(1.5), realtime=False)
            committed_at_s = time.monotonic()
            await client.commit()
            responses = client.responses()
            first = await anext(responses)
            assert (first.decision, first.finished, first.response_id) == ("listen", True, None)
            second = await anext(responses)
            assert (second.decision, second.finished) == ("speak", False)
            sound = b"".join([chunk async for chunk in second.audio()])
            await second.wait(5)
            acknowledged = asyncio.create_task(client.wait_for("playback.acknowledged", timeout_s=5))
            await asyncio.sleep(0)
            await client.ack_playback(second.played_ms, response_id=second.response_id)
            assert (await acknowledged).raw["event"]["committed_ms"] == 4000
            summary = collector.timing_summary(
                after_s=0, input_committed_at_s=committed_at_s, response_id=second.response_id
            )
        await task
        assert (len(sound), second.transcript, second.played_ms) == (ANSWER_BYTES, ANSWER, 4000)
        assert collector.errors() == []
        assert duplex.chunk_period_ms([{"session": client.session_info}]) == 1000
        assert is_gapless(numbers(collector))
        assert collector.events[-1]["type"] == "session.closed"
        assert summary["audio_output"]["chunk_count"] == 4
        assert summary["audio_output"]["chunk_duration_ms"]["mean"] == 1000
        figures = summary["request_metrics"]
        assert figures["audio_duration_ms"] == 4000
        assert figures["ttft_ms"] > 0
        assert figures["ttfp_ms"] > 0
        assert "0" in summary["stages"]

    play(scene)


def test_d2_an_answer_is_cancelled_once(duplex, preset):
    async def scene(hub, url):
        async with duplex.DuplexClient(url, model="m", config=preset()) as client:
            await ask(client)
            handle = await speaking(client)
            num_chunks = 0
            async for _ in handle.audio():
                num_chunks += 1
                await client.cancel_response(handle.response_id)
            await handle.wait(5)
            assert (handle.finished, num_chunks) == (True, 1)
            assert handle.done_event.raw["response"]["status"] == "cancelled"
            waiting = asyncio.create_task(client.wait_for("session.closed", timeout_s=5))
            await asyncio.sleep(0)
            await client.cancel_response()
            with pytest.raises(duplex.DuplexProtocolError) as refused:
                await waiting
            assert refused.value.code == "response_not_active"

    play(scene)


async def cut_in_an_answer(duplex, client, cut, generation=2):
    """Cut at the first chunk; nothing is lost and nothing doubled, and a second turn works."""
    collector, task = await collecting(duplex, client)
    token = client.resume_token
    await ask(client)
    handle = await speaking(client)
    sound = b""
    async for chunk in handle.audio():
        if not sound:
            cut()
        sound += chunk
    assert len(sound) == ANSWER_BYTES
    assert client.resume_token not in (None, token)
    kinds = [event["type"] for event in collector.events]
    assert kinds.index("session.resumed") == kinds.index("connection.resumed") + 1
    resumed = next(event for event in collector.events if event["type"] == "session.resumed")
    assert resumed["attachment_generation"] == generation
    assert is_gapless(numbers(collector))
    await ask(client)
    second = await speaking(client)
    assert len(b"".join([chunk async for chunk in second.audio()])) == ANSWER_BYTES
    await client.close()
    await task
    return collector


@pytest.mark.parametrize("transport", ["kept", "default"])
def test_d3_a_connection_that_breaks_is_resumed(duplex, preset, transport):
    async def scene(hub, url):
        kept = Kept()
        connect = kept if transport == "kept" else None
        async with duplex.DuplexClient(url, model="m", config=preset(), connect=connect) as client:
            await cut_in_an_answer(
                duplex, client, kept.cut if transport == "kept" else lambda: client._ws.transport.abort()
            )

    play(scene)


def test_d4_a_resume_that_is_refused_for_now_is_tried_again(duplex, preset, monkeypatch):
    resume, refusals = Hub.resume, []

    async def refuses_twice(self, request, attachment):
        if len(refusals) < 2:
            refusals.append(request)
            raise RealtimeError("runtime_resume_failed", "not now")
        return await resume(self, request, attachment)

    async def scene(hub, url):
        kept = Kept()
        async with duplex.DuplexClient(url, model="m", config=preset(), connect=kept) as client:
            collector = await cut_in_an_answer(duplex, client, kept.cut)
        resumed = [event for event in collector.events if event["type"] == "connection.resumed"]
        assert [event["attempt"] for event in resumed] == [2]

    monkeypatch.setattr(Hub, "resume", refuses_twice)
    play(scene)
    assert len(refusals) == 2


def test_d4_a_resume_whose_answer_was_lost_works_with_the_old_token(duplex, preset):
    async def scene(hub, url):
        kept = Kept(breaks_at="session.resumed")
        async with duplex.DuplexClient(url, model="m", config=preset(), connect=kept) as client:
            await cut_in_an_answer(duplex, client, kept.cut, generation=3)

    play(scene)


def test_d5_a_client_whose_session_was_taken_over_gives_up(duplex, preset):
    async def scene(hub, url):
        kept = Kept()
        async with duplex.DuplexClient(url, model="m", config=preset(), connect=kept) as client:
            collector, task = await collecting(duplex, client)
            await client.stream_pcm(bytes(32_000), realtime=False)
            await client.wait_for("response.listen", timeout_s=5)
            await asyncio.sleep(0.05)  # the client acknowledges what it has read
            async with websockets.connect(f"{url}/v1/realtime?duplex=1&autostart=0") as other:
                resume = {
                    "type": "session.resume",
                    "session_id": client.session_id,
                    "resume_token": client.resume_token,
                    "last_received_server_event_seq": numbers(collector)[-1],
                }
                await other.send(json.dumps(resume))
                assert json.loads(await other.recv())["type"] == "session.resumed"
                with pytest.raises(duplex.DuplexSessionClosedError):
                    await client.wait_for("nothing", timeout_s=10)
                await task
                assert len(kept.made) == 2  # the one retry, whose old token was refused
                sound = b64encode(speech(1.5)).decode()
                await other.send(json.dumps({"type": "input_audio_buffer.append", "audio": sound}))
                await other.send('{"type":"input_audio_buffer.commit"}')
                while (event := json.loads(await other.recv()))["type"] != "response.done":
                    assert event["type"] != "error", event
                await other.send('{"type":"session.close"}')
                while json.loads(await other.recv())["type"] != "session.closed":
                    pass

    play(scene)


def test_d6_what_is_refused_has_a_code(duplex, preset):
    async def scene(hub, url):
        private = preset(extra_body={"duplex_scheduler_token_id": 1})
        for address, config, code in (
            (url, private, "invalid_duplex_runtime_config"),
            (f"{url}/v1/realtime?duplex=0", preset(), "unsupported"),
        ):
            with pytest.raises(duplex.DuplexProtocolError) as refused:
                async with duplex.DuplexClient(address, model="m", config=config):
                    pass
            assert refused.value.code == code
        async with duplex.DuplexClient(url, model="m", config=preset()) as client:
            with pytest.raises(duplex.DuplexProtocolError) as refused:
                async with duplex.DuplexClient(url, model="m", config=preset()):
                    pass
            assert refused.value.code == "resource_exhausted"
            collector, _ = await collecting(duplex, client)
            beat = asyncio.create_task(client.wait_for("error", timeout_s=5))
            await asyncio.sleep(0)
            event_id = await client.send({"type": "nonsense"})
            assert (await beat).related_event_id == event_id
            beat = asyncio.create_task(client.wait_for("session.heartbeat_ack", timeout_s=5))
            await asyncio.sleep(0)
            await client.send({"type": "session.heartbeat"})
            await beat
            assert [error["error"]["code"] for error in collector.errors()] == ["unknown_event"]

    plain = settings_of("default")
    play(scene, settings=replace(plain, limits=replace(plain.limits, max_sessions=1)))


def test_d6_a_missing_key_is_named(duplex, preset):
    async def scene(hub, url):
        with pytest.raises(duplex.DuplexConnectionError, match="401"):
            async with duplex.DuplexClient(url, model="m", config=preset()):
                pass

    play(scene, settings=settings_of("keyed"))


def test_d7_turn_mode_answers_on_request(duplex, preset):
    async def scene(hub, url):
        config = preset(auto_response=False)
        async with duplex.DuplexClient(url, model="m", config=config) as client:
            await client.stream_pcm(speech(1.5), realtime=False)
            await client.commit(create_response=True)
            handle = await speaking(client)
            await handle.wait(5)
            assert handle.transcript == ANSWER
            await client.ack_playback(4000, response_id=handle.response_id)
            await client.stream_pcm(speech(1.5), realtime=False)
            await client.commit()
            await client.send({"type": "response.create"})
            handle = await speaking(client)
            await handle.wait(5)
            assert handle.transcript == ANSWER

    play(scene)


def test_d8_a_text_session_is_silent(duplex, preset):
    async def scene(hub, url):
        config = preset(modalities=("text",))
        async with duplex.DuplexClient(url, model="m", config=config) as client:
            await ask(client)
            handle = await speaking(client)
            assert not handle.finished
            assert [chunk async for chunk in handle.audio()] == []
            await handle.wait(5)
            assert handle.text == ANSWER

    play(scene)


def test_d9_frames_ride_their_seconds(duplex, preset):
    async def scene(hub, url):
        picture = f"data:image/png;base64,{png()}"
        async with duplex.DuplexClient(url, model="m", config=preset()) as client:
            collector, _ = await collecting(duplex, client)
            num_sent = await client.stream_pcm(
                speech(2.3),
                realtime=False,
                video_frames=[picture] * 3,
                stacked_video_frames=[picture, None, picture],
            )
            assert num_sent == 2
            await client.commit()
            handle = await speaking(client)
            await handle.wait(5)
            assert collector.errors() == []

    play(scene)


def test_d9_silence_is_listened_to_and_input_can_be_cleared(duplex, preset):
    async def scene(hub, url):
        async with duplex.DuplexClient(url, model="m", config=preset()) as client:
            await client.stream_pcm(bytes(32_000), realtime=False)
            handle = await anext(client.responses())
            assert (handle.decision, handle.response_id, handle.finished) == ("listen", None, True)
            cleared = asyncio.create_task(client.wait_for("input_audio_buffer.cleared", timeout_s=5))
            await asyncio.sleep(0)
            await client.clear_input()
            await cleared

    play(scene)


def test_d10_heartbeats_go_on_after_a_resume(duplex, preset):
    async def scene(hub, url):
        kept = Kept()
        options = {"config": preset(), "connect": kept, "heartbeat_interval_s": 0.1}
        async with duplex.DuplexClient(url, model="m", **options) as client:
            await client.wait_for("session.heartbeat_ack", timeout_s=5)
            kept.cut()
            await client.wait_for("session.resumed", timeout_s=5)
            await client.wait_for("session.heartbeat_ack", timeout_s=5)

    play(scene)


def test_d10_closing_in_an_answer_ends_it_first(duplex, preset):
    async def scene(hub, url):
        async with duplex.DuplexClient(url, model="m", config=preset()) as client:
            collector, task = await collecting(duplex, client)
            await ask(client)
            handle = await speaking(client)
            began_s = time.monotonic()
            await client.close()
            assert time.monotonic() - began_s < 1
        await task
        assert handle.finished
        kinds = [event["type"] for event in collector.events]
        assert kinds.index("response.done") < kinds.index("session.closed")
        assert handle.done_event.raw["response"]["status"] == "cancelled"

    play(scene)


def test_d10_an_exception_in_the_block_frees_the_slot(duplex, preset):
    async def scene(hub, url):
        with pytest.raises(ZeroDivisionError):
            async with duplex.DuplexClient(url, model="m", config=preset()):
                raise ZeroDivisionError

    play(scene)


@pytest.mark.parametrize(("encoding", "rate_hz"), [("pcm16", 24_000), ("pcm_f32le", 16_000)])
def test_d10_other_input_formats_are_taken(duplex, preset, encoding, rate_hz):
    async def scene(hub, url):
        config = preset(input_audio=duplex.AudioFormat(encoding, rate_hz))
        async with duplex.DuplexClient(url, model="m", config=config) as client:
            collector, _ = await collecting(duplex, client)
            sound = tone(1500, rate_hz).tobytes() if encoding == "pcm_f32le" else speech(1.5, rate_hz)
            await client.stream_pcm(sound, realtime=False)
            committed = asyncio.create_task(client.wait_for("input_audio_buffer.committed", timeout_s=5))
            await asyncio.sleep(0)
            await client.commit()
            await committed
            assert collector.errors() == []

    play(scene)


def test_the_golden_trace_over_a_bare_websocket():
    """Specification section 6.9, with nothing but the `websockets` package."""

    async def scene(hub, url):
        sound = b64encode(speech(0.2)).decode()
        seen = []

        async def until(kind):
            while True:
                event = json.loads(await asyncio.wait_for(socket.recv(), 5))
                seen.append(event)
                assert event["type"] != "error", event
                if event["type"] == kind:
                    return event

        async with websockets.connect(f"{url}/v1/realtime?duplex=1") as socket:
            opening = {"type": "session.update", "session": {"extra_body": {"auto_response": True}}}
            await socket.send(json.dumps(opening))
            await until("session.updated")
            for _ in range(7):
                await socket.send(json.dumps({"type": "input_audio_buffer.append", "audio": sound}))
            await until("response.listen")
            await socket.send(json.dumps({"type": "session.event_ack", "server_event_seq": 3}))
            await socket.send('{"type":"input_audio_buffer.commit","final":true}')
            done = await until("response.done")
            await socket.send(
                json.dumps({"type": "playback.ack", "played_ms": 4000, "response_id": done["response_id"]})
            )
            await until("playback.acknowledged")
            await socket.send('{"type":"session.close"}')
            await until("session.closed")
            with pytest.raises(websockets.ConnectionClosedOK):
                await socket.recv()
            assert socket.close_code == 1000
        pairs = ["response.output_audio.delta", "response.output_audio_transcript.delta"] * 4
        assert [event["type"] for event in seen] == [
            *("session.created", "session.updated", "input_audio_buffer.speech_started", "response.listen"),
            *("input_audio_buffer.speech_stopped", "conversation.item.added", "conversation.item.created"),
            *("input_audio_buffer.committed", "conversation.item.done", "response.created"),
            *("conversation.item.added", "conversation.item.created", "response.output_item.added"),
            *("response.content_part.added", "response.speak", *pairs),
            *("response.output_audio.done", "response.output_audio_transcript.done", "response.content_part.done"),
            *("response.output_item.done", "conversation.item.done", "response.done", "rate_limits.updated"),
            *("playback.acknowledged", "session.closed"),
        ]
        assert [event.get("server_event_seq") for event in seen] == [None, *range(1, len(seen))]

    play(scene)
