"""The commands around live sessions, against a real server process-in-thread with scripted answers."""

import asyncio
import json
import subprocess
import sys
import threading
import wave
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from realtime_server import running, settings_of

from antiphon.cli.main import BAD_INPUT, main
from antiphon.realtime.limits import Limits
from antiphon.realtime.script import Answer, Piece, Script
from antiphon.serving.realtime.scripted_app import scripted_hub

SCRIPT = Script(answers=(Answer(pieces=(Piece("It is "), Piece("calm.", 500))),))


@pytest.fixture
def server(tmp_path):
    """Address of a scripted server that records into `traces`; commands run their own loops, so it has a thread."""
    begun, stop = threading.Event(), threading.Event()
    found = {}

    async def serve():
        settings = replace(settings_of("default"), record_folder=tmp_path / "traces", limits=Limits(max_sessions=16))
        async with running(scripted_hub(SCRIPT, settings)) as url:
            found["url"] = url
            begun.set()
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert begun.wait(20)
    yield found["url"]
    stop.set()
    thread.join(20)


@pytest.fixture
def question(tmp_path):
    path = tmp_path / "question.wav"
    samples = (9000 * np.sin(np.arange(24_000) / 9)).astype("<i2")
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes(samples.tobytes())
    return path


def test_a_file_is_answered_and_everything_kept(server, question, tmp_path, capsys):
    out = tmp_path / "out"
    args = ["duplex", str(question), "--url", server, "--out", str(out), "--no-realtime-pacing", "--require-audio"]
    assert main(args) == 0
    assert "It is calm." in capsys.readouterr().out
    result = json.loads((out / "result.json").read_text())
    assert result["ok"]
    assert (result["model_decision"], result["transcript"]) == ("speak", "It is calm.")
    assert [decision["decision"] for decision in result["decisions"]] == ["listen", "speak"]
    assert result["latency"]["audio_duration_s"] == 1.5
    assert {"ttft_ms", "ttfp_ms", "rtf"} <= set(result["latency"])
    with wave.open(str(out / "output.wav")) as file:
        assert (file.getframerate(), file.getnframes()) == (24_000, 36_000)
    assert (out / "output.pcm").stat().st_size == result["audio_bytes"] == 72_000
    assert len(list((out / "audio_chunks").glob("*.wav"))) == result["audio_chunk_count"] == 2
    events = [json.loads(line) for line in (out / "events.jsonl").read_text().splitlines()]
    assert all("_client_received_at_s" in event for event in events)
    assert events[-1]["type"] == "session.closed"


def test_an_answer_is_interrupted_and_the_interruption_answered(server, question, tmp_path):
    out = tmp_path / "out"
    args = ["--barge-in-at", "0.4", "--barge-in-with", str(question)]
    assert main(["duplex", str(question), "--url", server, "--out", str(out), *args]) == 0
    result = json.loads((out / "result.json").read_text())
    assert result["barge_in"]["happened"]
    assert result["barge_in"]["stop_ms"] < 1000
    assert len(result["responses"]) == 2
    first, second = result["responses"]
    assert 0.3 < first["heard_s"] < 1.0
    assert second["heard_s"] == pytest.approx(1.5, abs=0.01)


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (["none.wav"], "none.wav"),
        (["{question}", "--url", "ws://127.0.0.1:9"], "no connection"),
        (["{question}", "--url", "ftp://x"], "no server's address"),
        (["{question}", "--barge-in-with", "x.wav"], "--barge-in-at"),
        (["{question}", "--barge-in-at", "1", "--no-realtime-pacing"], "real-time pacing"),
    ],
)
def test_what_cannot_be_done_is_one_line(question, args, complaint, capsys, tmp_path):
    given = [arg.format(question=question) for arg in args]
    assert main(["duplex", *given, "--out", str(tmp_path / "out")]) == BAD_INPUT
    error = capsys.readouterr().err.strip()
    assert complaint in error
    assert error.count("\n") == 0


def test_a_recorded_session_is_replayed_and_another_file_is_not_the_same(server, question, tmp_path, capsys):
    main(["duplex", str(question), "--url", server, "--out", str(tmp_path / "out"), "--no-realtime-pacing"])
    (trace,) = (tmp_path / "traces").glob("*.jsonl")
    copy = tmp_path / "copy.jsonl"
    copy.write_text(trace.read_text())
    assert main(["replay", str(copy), "--url", server, "--speed", "0"]) == 0
    assert "nothing differs" in capsys.readouterr().out
    changed = copy.read_text().replace('"delta":"calm."', '"delta":"rough."')
    copy.write_text(changed)
    assert main(["replay", str(copy), "--url", server, "--speed", "0"]) == 1
    output = capsys.readouterr().out
    assert "rough." in output
    assert "they differ" in output


def test_a_replay_of_nothing_is_refused(tmp_path, capsys):
    assert main(["replay", str(tmp_path / "none.jsonl")]) == BAD_INPUT
    assert main(["replay", str(tmp_path), "--audio", "loud"]) == BAD_INPUT
    assert "exact, length, ignore" in capsys.readouterr().err


def test_sessions_are_measured_and_reported(server, tmp_path, capsys):
    address = server.replace("ws", "http", 1)
    args = ["--backend", "openai-realtime-duplex", "--base-url", address, "--max-concurrency", "1,4"]
    more = ["--num-prompts", "1,4", "--duplex-session-s", "4", "--duplex-talk-s", "1", "--duplex-pause-s", "1"]
    saved = ["--result-filename", "r.json", "--result-dir", str(tmp_path), "--save-detailed"]
    assert main(["bench", "serve", *args, *more, *saved, "--plot", str(tmp_path / "p.png")]) == 0
    output = capsys.readouterr().out
    assert output.count("P99 UNIT_FIRST_AUDIO (ms):") == 2
    document = json.loads((tmp_path / "r.json").read_text())
    one, four = document["levels"]
    assert (one["num_units"], four["num_units"]) == (4, 16)
    assert one["num_units_spoken"] == 2
    assert four["num_units_late"] == 0
    assert one["p50_unit_decision_ms"] < one["p50_unit_first_audio_ms"] < 500
    assert len(four["duplex_session_metrics"]) == 4
    assert (tmp_path / "p.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (["--backend", "openai-realtime-duplex", "--top-k", "3"], "--top-k"),
        (["--backend", "openai-realtime-tts", "--dataset-name", "daily-omni"], "random, wav, seed-tts"),
        (["--backend", "openai-realtime-duplex", "--dataset-name", "wav"], "--dataset-path"),
        (["--duplex-talk-s", "3"], "--duplex-talk-s"),
    ],
)
def test_flags_of_another_backend_are_refused(args, complaint, capsys):
    assert main(["bench", "serve", *args]) == BAD_INPUT
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (["none.yaml"], "none.yaml"),
        (["default", "tiny", "--max-model-len", "100"], "--max-model-len"),
        (["default", "--device", "cpu"], "--device"),
    ],
)
def test_a_server_without_a_model_refuses_what_only_a_model_could_honour(args, complaint, capsys):
    assert main(["serve", "--fake-engine", *args]) == BAD_INPUT
    assert complaint in capsys.readouterr().err


def test_a_server_without_a_model_can_be_checked(capsys):
    assert main(["serve", "--fake-engine", "default", "--check"]) == 0


def test_the_example_is_interrupted_and_says_what_was_heard(server, question, tmp_path):
    example = Path(__file__).parents[2] / "examples" / "duplex_barge_in.py"
    args = [str(question), "--url", server, "--after-s", "0.5", "--output", str(tmp_path / "heard.wav")]
    found = subprocess.run(
        [sys.executable, str(example), *args], capture_output=True, text=True, timeout=60, check=False
    )
    assert (found.returncode, found.stderr) == (0, "")
    assert "heard 0.5 s of: It is" in found.stdout
    with wave.open(str(tmp_path / "heard.wav")) as file:
        assert file.getnframes() == 12_000
