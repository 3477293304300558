"""Recorded sessions, and the same sessions run again."""

import asyncio
import json
from dataclasses import replace

import pytest
from duplex_scenes import KeptConnect, ask, collected, play, preset
from realtime_server import running, settings_of

from antiphon.client import DuplexClient, ReconnectPolicy
from antiphon.client.errors import DuplexConnectionError
from antiphon.client.replay.compare import SoundCheck
from antiphon.client.replay.run import ReplayOptions, replay
from antiphon.client.replay.trace_file import read_trace
from antiphon.core.errors import ConfigError
from antiphon.realtime.script import DEFAULT_SCRIPT, Answer, Piece, Script
from antiphon.serving.realtime.recording import SessionRecorder
from antiphon.serving.realtime.scripted_app import scripted_hub

OTHER_WORDS = Script(answers=(Answer(pieces=(Piece("This "), Piece("is a "), Piece("different "), Piece("answer."))),))
SHORTER = Script(answers=(Answer(pieces=(Piece("This "), Piece("is a scripted "), Piece("answer."))),))
IN_SMALLER_PIECES = Script(
    answers=(
        Answer(pieces=tuple(Piece(word, 500) for word in ("Th", "is ", "is ", "a ", "scrip", "ted ", "ans", "wer."))),
    )
)
LONG = Script(answers=(Answer(pieces=tuple(Piece(f"word{i} ", 500) for i in range(20))),), gap_ms=20)
QUICK = ReconnectPolicy(max_attempts=4, backoff_s=(0.01, 0.02))


def recording(folder, name="default"):
    return replace(settings_of(name), record_folder=folder)


def record(folder, scene, script=DEFAULT_SCRIPT, name="default"):
    """Run *scene* with a client on a recorded server; gives the trace."""
    play(scene, script, recording(folder, name))
    (path,) = folder.glob("*.jsonl")
    return path


def run_again(path, script=DEFAULT_SCRIPT, **options):
    async def run():
        async with running(scripted_hub(script)) as url:
            return await replay(read_trace(path), ReplayOptions(url=url, speed=0, patience_s=1.0, **options))

    return asyncio.run(run())


async def one_turn(hub, url, **options):
    async with DuplexClient(url, config=preset(), **options) as client:
        await ask(client)
        async for handle in client.responses():
            if handle.decision == "speak":
                break
        await handle.wait(5)
        acknowledged = client.wait_for("playback.acknowledged", timeout_s=5)
        await client.ack_playback(1000, response_id=handle.response_id)
        await acknowledged


def test_a_session_is_kept_with_everything_but_its_credentials(tmp_path):
    async def scene(hub, url):
        await one_turn(hub, f"{url}?api_key=in-the-address", api_key="secret")

    path = record(tmp_path, scene, name="keyed")
    text = path.read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert path.stem.startswith("sess_")
    assert "secret" not in text
    assert "in-the-address" not in text
    created = next(line["event"] for line in lines if line.get("event", {}).get("type") == "session.created")
    assert created["resume_token"] == "…"
    assert (lines[0]["kind"], lines[0]["path"]) == ("opened", "/v1/realtime")
    assert {line["by"] for line in lines[1:]} == {"client", "server"}
    assert (lines[-1]["kind"], lines[-1]["code"]) == ("closed", 1000)
    moments = [line["at_s"] for line in lines]
    assert moments == sorted(moments)


def test_the_same_build_differs_in_nothing(tmp_path):
    result = run_again(record(tmp_path, one_turn))
    assert result.differences == ()
    assert result.num_received == result.num_recorded > 20


def test_other_pieces_of_the_same_words_and_sound_are_no_difference(tmp_path):
    result = run_again(record(tmp_path, one_turn), IN_SMALLER_PIECES, sound=SoundCheck.LENGTH)
    marks = [item for item in result.differences if "usage" not in item.where]
    assert marks == []


def test_other_words_are_a_difference_and_named(tmp_path):
    result = run_again(record(tmp_path, one_turn), OTHER_WORDS)
    said = [item for item in result.differences if item.where.startswith("response.output_audio_transcript.delta")]
    assert [(item.recorded, item.live) for item in said] == [
        ("This is a scripted answer.", "This is a different answer.")
    ]


@pytest.mark.parametrize(("sound", "is_found"), [("exact", True), ("length", True), ("ignore", False)])
def test_missing_sound_is_found_as_closely_as_asked_for(tmp_path, sound, is_found):
    result = run_again(record(tmp_path, one_turn), SHORTER, sound=SoundCheck(sound))
    assert any(item.where.startswith("response.output_audio.delta") for item in result.differences) is is_found


def test_an_interrupted_answer_is_interrupted_in_the_same_place(tmp_path):
    async def scene(hub, url):
        async with DuplexClient(url, config=preset()) as client:
            await ask(client)
            async for handle in client.responses():
                if handle.decision == "speak":
                    break
            async for _ in handle.audio():
                await client.cancel_response(handle.response_id)
                break
            await handle.wait(5)

    result = run_again(record(tmp_path, scene, LONG), LONG, sound=SoundCheck.IGNORE)
    done = [item for item in result.differences if "status" in item.where or item.lane == "error"]
    assert done == []


def test_a_resumed_session_is_one_trace_and_is_resumed_again(tmp_path):
    async def scene(hub, url):
        connect = KeptConnect()
        async with DuplexClient(url, config=preset(), connect=connect, reconnect=QUICK) as client:
            _, task = await collected(client)
            await ask(client)
            async for handle in client.responses():
                if handle.decision == "speak":
                    break
            connect.made[0].abort()
            await handle.wait(5)
        await task

    path = record(tmp_path, scene, LONG)
    opened = [line for line in read_trace(path).lines if type(line).__name__ == "TraceOpened"]
    assert [line.connection for line in opened] == [1, 2]
    result = run_again(path, LONG)
    assert not [item for item in result.differences if item.lane in ("error", "session.resumed", "response 1")]


def test_a_trace_has_a_largest_size_and_says_that_it_ends_there(tmp_path):
    async def scene():
        recorder = SessionRecorder(tmp_path, max_session_bytes=2000)
        trace = recorder.connection("/v1/realtime", {"key": "k"}, None)
        trace.frame("client", '{"type":"session.update"}')
        trace.bind("sess_1")
        for _ in range(100):
            trace.frame("server", '{"type":"session.heartbeat_ack"}')
        trace.closed("client", 1000)
        await trace.finish()

    asyncio.run(scene())
    trace = read_trace(tmp_path / "sess_1.jsonl")
    assert trace.cut_off == "a trace has at most 2000 bytes"
    assert 5 < len(trace.lines) < 100
    assert trace.lines[0].query == {"key": "…"}


def test_frames_that_are_no_events_are_kept_as_they_are(tmp_path):
    async def scene():
        trace = SessionRecorder(tmp_path).connection("/v1/realtime", {}, "realtime")
        trace.bind("sess_1")
        trace.frame("client", "no json")
        trace.frame("client", None)
        trace.frame("client", "[1]")
        await trace.finish()

    asyncio.run(scene())
    frames = read_trace(tmp_path / "sess_1.jsonl").lines[1:]
    assert [(line.event, line.text) for line in frames] == [(None, "no json"), (None, None), (None, "[1]")]


def test_a_folder_that_cannot_be_written_is_refused_at_the_start(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot be written"):
        SessionRecorder(tmp_path / "file" / "traces")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "is no trace"),
        ("{}\n", ":1: is no line"),
        ('{"kind":"opened","at_s":0,"connection":1,"path":"/","query":{},"format":9}\n', "format 9"),
    ],
)
def test_what_is_no_trace_is_refused_by_line(tmp_path, content, complaint):
    path = tmp_path / "trace.jsonl"
    path.write_text(content)
    with pytest.raises(ConfigError, match=complaint):
        read_trace(path)


def test_a_server_that_is_not_there_is_a_connection_error(tmp_path):
    path = record(tmp_path, one_turn)
    with pytest.raises(DuplexConnectionError, match="no connection"):
        asyncio.run(replay(read_trace(path), ReplayOptions(url="ws://127.0.0.1:9", speed=0)))
