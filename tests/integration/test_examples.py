"""The programs in examples/, run as a user runs them, against a small real server."""

import importlib.util
import shutil
import subprocess
import sys
import wave
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
HAS_CURL = shutil.which("curl") and shutil.which("jq")
SAID = "The sea is calm."


def run(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run one example with nothing but *env* and the search path around it."""
    environment = {"PATH": "/usr/bin:/bin", "PYTHON": sys.executable, **env}
    return subprocess.run(args, capture_output=True, text=True, env=environment, timeout=120, check=False)


def example(name: str, *args: str) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, str(EXAMPLES / name), *args)


def seconds(path: Path) -> float:
    with wave.open(str(path)) as reader:
        return reader.getnframes() / reader.getframerate()


@pytest.mark.skipif(not HAS_CURL, reason="needs curl and jq")
@pytest.mark.parametrize(
    ("query", "part"),
    [("text", None), ("use_audio", "audio_url"), ("use_image", "image_url"), ("use_video", "video_url")],
)
def test_the_curl_script_asks_each_query(fake_server, query: str, part: str | None) -> None:
    script = str(EXAMPLES / "run_curl_multimodal_generation.sh")
    found = run(script, query, PORT=str(fake_server.port))
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout == f"Text: {SAID}\nChoices with audio: 1\n"
    body = fake_server.bodies[0]
    kinds = [item["type"] for item in body["messages"][1]["content"]]
    assert kinds == ([part, "text"] if part else ["text"])
    assert (body["modalities"], len(body["sampling_params_list"])) == (None, 2)
    assert body["chat_template_kwargs"]["use_tts_template"] is True


@pytest.mark.skipif(not HAS_CURL, reason="needs curl and jq")
def test_the_curl_script_takes_modalities_a_key_and_an_output(fake_server, tmp_path: Path) -> None:
    fake_server.api_key = "k"
    script, wav = str(EXAMPLES / "run_curl_multimodal_generation.sh"), tmp_path / "a.wav"
    text_only = run(script, "text", '["text"]', PORT=str(fake_server.port), API_KEY="k")
    assert text_only.stdout.endswith("Choices with audio: 0\n")
    assert fake_server.bodies[0]["chat_template_kwargs"]["use_tts_template"] is False
    run(script, "text", PORT=str(fake_server.port), API_KEY="k", OUTPUT=str(wav))
    assert seconds(wav) == 1.5
    refused = run(script, "text", PORT=str(fake_server.port))
    assert (refused.returncode, refused.stderr) == (1, "HTTP 401: Unauthorized\n")
    assert run(script, "smell").returncode == 2
    assert run(script, "text", "text").returncode == 2


@pytest.mark.parametrize("shape", ["vllm-omni", "openai"])
def test_the_streaming_client_prints_text_and_writes_speech(fake_server, tmp_path: Path, shape: str) -> None:
    fake_server.shape = shape
    wav = tmp_path / "out.wav"
    found = example("streaming_chat_completion.py", "--base-url", f"{fake_server.url}/v1", "--output", str(wav))
    assert found.returncode == 0, found.stderr
    assert found.stdout.startswith(f"{SAID}\n[1.50 s of speech")
    assert seconds(wav) == 1.5


def test_the_streaming_client_can_do_without_speech_and_names_a_missing_server(fake_server) -> None:
    found = example("streaming_chat_completion.py", "--base-url", f"{fake_server.url}/v1", "--text-only")
    assert found.stdout.startswith(SAID)
    assert fake_server.bodies[0]["modalities"] == ["text"]
    missing = example("streaming_chat_completion.py", "--base-url", "http://127.0.0.1:9/v1")
    assert (missing.returncode, "Traceback" in missing.stderr) == (1, False)


@pytest.mark.skipif(importlib.util.find_spec("openai") is None, reason="needs openai")
@pytest.mark.parametrize("query", ["text", "use_audio", "use_image", "use_video"])
@pytest.mark.parametrize("stream", [(), ("--stream",)])
def test_the_sdk_client_asks_each_query(fake_server, tmp_path: Path, query: str, stream: tuple[str, ...]) -> None:
    name = "openai_chat_completion_client_for_multimodal_generation.py"
    args = ["--port", str(fake_server.port), "--query-type", query, "--output-dir", str(tmp_path), *stream]
    found = example(name, *args)
    assert found.returncode == 0, found.stderr
    assert SAID in found.stdout
    assert seconds(tmp_path / "output_0.wav") == 1.5
    assert fake_server.bodies[0]["messages"][1]["content"][-1]["type"] == "text"


@pytest.mark.skipif(importlib.util.find_spec("openai") is None, reason="needs openai")
def test_the_sdk_client_asks_several_prompts_at_once(fake_server, tmp_path: Path) -> None:
    name = "openai_chat_completion_client_for_multimodal_generation.py"
    args = ["--query-type", "text", "--prompts", "One,Two", "--num-concurrent-requests", "4", "--modalities", "text"]
    found = example(name, "--port", str(fake_server.port), *args, "--output-dir", str(tmp_path))
    assert found.returncode == 0, found.stderr
    asked = sorted(body["messages"][1]["content"][0]["text"] for body in fake_server.bodies)
    assert asked == ["One", "One", "Two", "Two"]
    assert list(tmp_path.glob("*.wav")) == []
