"""OpenBMB's own SDK, unmodified, against a scripted server: the B rows of specification section 22.1."""

import asyncio
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from openbmb_realtime import (
    AudioDelta,
    Interrupted,
    Paused,
    RealtimeClient,
    RealtimeConfig,
    RealtimeError,
    Resumed,
    SessionClosed,
    SessionQueued,
    SessionReady,
    SessionState,
    TextDelta,
    TurnCompleted,
    UsageEvent,
    WorkerAssigned,
)
from realtime_server import running, settings_of

from antiphon.client.conformance.sounds import png, tone, wav
from antiphon.realtime.limits import Limits
from antiphon.realtime.script import Answer, Piece, Script
from antiphon.serving.realtime.hub import Hub
from antiphon.serving.realtime.scripted_app import scripted_hub
from antiphon.serving.realtime.settings import RealtimeSettings, Timeouts

TONE = tone(1000).astype("<f4").tobytes()
ZEROS = bytes(len(TONE))
CHUNK_BYTES = 96_000  # a second at 24 kHz
TEXTS = ["This ", "is a ", "scripted ", "answer."]
SCRIPT = Script(answers=(Answer(pieces=tuple(map(Piece, TEXTS))),), gap_ms=60)
CONFIG = RealtimeConfig(
    length_penalty=1.1, max_tokens=20, temperature=0.7, max_kv_tokens=6000, tts_enabled=True, vision_hd=True
)

Scene = Callable[[RealtimeClient, Hub], Awaitable[None]]


def play(scene: Scene, settings: RealtimeSettings | None = None, key: str = "none") -> None:
    """Run *scene* against a scripted server; no session and no place in the queue may be left behind."""

    async def run() -> None:
        hub = scripted_hub(SCRIPT, settings)
        async with running(hub) as url:
            client = RealtimeClient(api_key=key, base_url=url.replace("ws://", "http://"))
            await asyncio.wait_for(scene(client, hub), 30)
            for _ in range(300):
                if hub.num_sessions == hub.admission.num_taken == hub.admission.num_waiting == 0:
                    return
                await asyncio.sleep(0.01)
            raise AssertionError("a session was left behind")

    asyncio.run(run())


async def ask(session: Any) -> None:
    for piece in (TONE, TONE, ZEROS):
        await session.send_audio(piece)


async def until(events: Any, wanted: type) -> list[Any]:
    """The events up to the first of that type."""
    seen = []
    async for event in events:
        seen.append(event)
        if isinstance(event, wanted):
            return seen
    raise AssertionError(f"no {wanted.__name__}; came {seen}")


def of(seen: list[Any], kind: type) -> list[Any]:
    return [event for event in seen if isinstance(event, kind)]


def check_answer(seen: list[Any]) -> None:
    """One whole answer: text and then its speech, four times, one usage, one end."""
    said = [event for event in seen if isinstance(event, TextDelta | AudioDelta)]
    assert [type(event) for event in said] == [TextDelta, AudioDelta] * 4
    assert [event.text for event in said[::2]] == TEXTS
    assert [len(event.audio) for event in said[1::2]] == [CHUNK_BYTES] * 4
    sound = np.frombuffer(said[1].audio, "<f4")
    assert 0.2 < np.abs(sound).max() < 0.4
    assert len(of(seen, UsageEvent)) == len(of(seen, TurnCompleted)) == 1


@pytest.mark.parametrize("mode", ["audio", "video"])
def test_b1_a_turn(mode: str):
    async def scene(client: RealtimeClient, hub: Hub) -> None:
        session: Any = await getattr(client, mode).connect(model="m", system_prompt="Be brief.", config=CONFIG)
        events = session.events()
        opening = await until(events, SessionReady)
        assert [type(event) for event in opening] == [WorkerAssigned, SessionReady]
        (live,) = hub.sessions()
        assert session.id == live.session.id == opening[-1].session_id
        settings = live.session.state.settings
        assert (settings.instructions, settings.temperature, settings.max_unit_tokens) == ("Be brief.", 0.7, 20)
        assert (settings.window.high_tokens, settings.length_penalty) == (6000, 1.1)
        await ask(session)
        check_answer(await until(events, TurnCompleted))
        assert session.state is SessionState.LISTENING
        await session.close()
        assert session.state is SessionState.CLOSED

    play(scene)


def test_b2_an_interruption_ends_the_answer_and_the_next_turn_is_whole():
    async def scene(client: RealtimeClient, hub: Hub) -> None:
        session = await client.audio.connect(model="m")
        events = session.events()
        await ask(session)
        await until(events, AudioDelta)
        session.interrupt()
        await session.send_audio(ZEROS)
        cut = await until(events, TurnCompleted)
        assert len(of(cut, Interrupted)) == len(of(cut, UsageEvent)) == 1
        first = session.usage
        assert first is not None
        await asyncio.sleep(0.4)  # the rest of the answer would have come by now
        await ask(session)
        check_answer(await until(events, TurnCompleted))
        second = session.usage
        assert second is not None
        assert second.prompt_tokens > first.prompt_tokens
        assert second.total_tokens == second.prompt_tokens + second.completion_tokens
        (live,) = hub.sessions()
        assert live.session.state.epoch == 1
        assert second.completion_tokens == live.session.state.total.num_output_tokens
        await session.close()

    play(scene)


def test_b3_frames_ride_their_sound_and_a_pause_is_the_clients_own():
    async def scene(client: RealtimeClient, hub: Hub) -> None:
        session = await client.video.connect(model="m")
        events = session.events()
        picture = b64decode(png())
        await session.send_audio_video(TONE, picture)
        await session.send_audio_video(TONE, picture)
        session.pause()
        await session.send_audio(TONE)
        session.resume()
        await session.send_audio(ZEROS)
        seen = await until(events, TurnCompleted)
        check_answer(seen)
        assert len(of(seen, Paused)) == len(of(seen, Resumed)) == 1
        (live,) = hub.sessions()
        assert live.session.state.total.num_units == 3
        await session.close("done")
        assert session.state is SessionState.CLOSED
        assert (await until(events, SessionClosed))[-1].reason == "done"

    play(scene)


def busy(queue_wait_s: float = 25.0) -> RealtimeSettings:
    plain = settings_of("default")
    limits = Limits(max_sessions=1, queue_wait_s=queue_wait_s)
    return replace(plain, limits=limits, timeouts=Timeouts(queue_update_s=0.1))


def test_b3_a_busy_server_queues_and_then_opens():
    async def scene(client: RealtimeClient, hub: Hub) -> None:
        first = await client.audio.connect(model="m")
        opening = asyncio.create_task(client.audio.connect(model="m"))
        await asyncio.sleep(0.35)
        assert not opening.done()
        assert hub.admission.num_waiting == 1
        await first.close()
        second = await opening
        seen = await until(second.events(), SessionReady)
        queued = of(seen, SessionQueued)
        assert len(queued) >= 3
        assert (queued[0].position, queued[0].queue_length) == (1, 1)
        assert queued[0].estimated_wait_seconds > 0
        assert [type(event) for event in seen[-2:]] == [WorkerAssigned, SessionReady]
        await second.close()

    play(scene, busy())


def test_b3_a_server_that_stays_busy_says_so():
    async def scene(client: RealtimeClient, hub: Hub) -> None:
        first = await client.audio.connect(model="m")
        with pytest.raises(RealtimeError) as refused:
            await client.audio.connect(model="m")
        assert refused.value.code == "resource_exhausted"
        await first.close()

    play(scene, busy(0.2))


def test_whoever_leaves_the_queue_gives_up_the_place():
    async def scene(client: RealtimeClient, hub: Hub) -> None:
        first = await client.audio.connect(model="m")
        waiting = [asyncio.create_task(client.audio.connect(model="m")) for _ in range(2)]
        await asyncio.sleep(0.2)
        waiting[0].cancel()
        await asyncio.wait({waiting[0]})
        await first.close()
        session = await waiting[1]
        await session.close()

    play(scene, busy())


def test_a_text_session_has_no_sound():
    async def scene(client: RealtimeClient, hub: Hub) -> None:
        session = await client.audio.connect(model="m", config=RealtimeConfig(tts_enabled=False))
        events = session.events()
        await ask(session)
        seen = await until(events, TurnCompleted)
        assert [event.text for event in of(seen, TextDelta)] == TEXTS
        assert not of(seen, AudioDelta)
        await session.close()

    play(scene)


@pytest.mark.parametrize("form", ["file", "samples"])
def test_a_reference_voice_may_be_a_file_or_bare_samples(form: str):
    given = wav().partition(",")[2] if form == "file" else b64encode(TONE).decode()

    async def scene(client: RealtimeClient, hub: Hub) -> None:
        session = await client.audio.connect(model="m", reference_audio_base64=given, tts_reference_audio_base64=given)
        (live,) = hub.sessions()
        reference = live.session.state.settings.reference
        assert reference is not None
        assert reference.data.startswith(b"RIFF")
        await session.close()

    play(scene)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"reference_audio_base64": "????"}, "invalid_session_config"),
        ({"reference_audio_base64": b64encode(b"not sound").decode()}, "invalid_session_config"),
        ({"reference_audio_base64": "AAAA", "tts_reference_audio_base64": "AAAB"}, "invalid_session_config"),
        ({"max_slice_nums": 9}, "invalid_video_frames"),
        ({"config": RealtimeConfig(temperature=-1.0)}, "invalid_session_config"),
        ({"config": RealtimeConfig(max_kv_tokens=0)}, "invalid_sliding_window_config"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(options: dict[str, Any], code: str):
    async def scene(client: RealtimeClient, hub: Hub) -> None:
        with pytest.raises(RealtimeError) as refused:
            await client.audio.connect(model="m", **options)
        assert refused.value.code == code

    play(scene)


def test_a_key_is_needed_where_keys_are_set():
    async def scene(client: RealtimeClient, hub: Hub) -> None:
        session = await client.audio.connect(model="m")
        await session.close()
        with pytest.raises(RealtimeError) as refused:
            await RealtimeClient(api_key="wrong", base_url=client.options.base_url).audio.connect(model="m")
        assert refused.value.code == "socket_create_failed"
        assert "401" in str(refused.value.cause)

    play(scene, settings_of("keyed"), key="secret")


def test_a_session_that_the_engine_gives_up_ends_with_its_error():
    dying = Script(answers=(Answer(pieces=(Piece("This "),), dies=True),))

    async def run() -> None:
        hub = scripted_hub(dying)
        async with running(hub) as url:
            client = RealtimeClient(api_key="none", base_url=url)
            session = await client.audio.connect(model="m")
            await ask(session)
            seen = await until(session.events(), SessionClosed)
            assert session.state is SessionState.FAILED
            assert seen[-2].code == seen[-1].reason == "engine_error"
            await session.close()

    asyncio.run(run())


def test_a_session_that_is_left_alone_ends_with_a_reason():
    plain = settings_of("default")
    settings = replace(plain, defaults=replace(plain.defaults, idle_timeout_s=0.3))

    async def scene(client: RealtimeClient, hub: Hub) -> None:
        session = await client.audio.connect(model="m")
        assert (await until(session.events(), SessionClosed))[-1].reason == "idle_timeout"
        assert session.state is SessionState.CLOSED

    play(scene, settings)
