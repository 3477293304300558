"""Pipecat and LiveKit, unmodified, against a scripted server: the P and L rows of specification section 22.1.

They run in an environment of their own, which `make test` sets up: their pins are not ours.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from realtime_openai import PUSH_TO_TALK, Talk, loud, play, served

SCRIPTS = Path(__file__).parents[1] / "clients"
PYTHON = Path(sys.prefix) / "clients" / "bin" / "python"
ANSWER = [192_000, "This is a scripted answer."]

pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason="make test installs the voice frameworks")
needs_pipecat = pytest.mark.skipif(sys.version_info < (3, 11), reason="Pipecat needs Python 3.11")


def script(name: str, *arguments: str) -> dict[str, Any]:
    """Run a script of tests/clients; `{base}` and `{ws}` in an argument are the addresses of a fresh server."""

    async def run() -> dict[str, Any]:
        async with served() as (base_url, _):
            process = await asyncio.create_subprocess_exec(
                PYTHON,
                SCRIPTS / name,
                *(
                    argument.replace("{base}", base_url).replace("{ws}", base_url.replace("http", "ws"))
                    for argument in arguments
                ),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            out, log = await asyncio.wait_for(process.communicate(), 90)
            assert process.returncode == 0, log.decode()[-3000:]
            result: dict[str, Any] = json.loads(out.decode().splitlines()[-1])
            return result

    return asyncio.run(run())


@needs_pipecat
@pytest.mark.parametrize("detection", ["false", "unset", "semantic", "server"])
def test_pipecat_is_answered_after_a_text_and_after_speech(detection: str):
    result = script("pipecat_script.py", "talk", "{ws}/realtime", detection)
    assert result == {"sizes": [192_000, 192_000], "marks": ["started", "stopped"] * 2, "errors": []}


@needs_pipecat
def test_pipecat_knows_every_event(tmp_path: Path):
    async def scene(talk: Talk) -> None:
        connection = talk.connection
        await connection.session.update(session=PUSH_TO_TALK)
        await connection.input_audio_buffer.append(audio=loud(1500))
        await connection.response.create()
        delta = await talk.get("response.output_audio.delta")
        await connection.response.cancel()
        await talk.get("response.done")
        await connection.response.cancel()
        await talk.error("response_cancel_not_active")
        await connection.conversation.item.truncate(item_id=delta.item_id, content_index=0, audio_end_ms=500)
        await connection.conversation.item.retrieve(item_id=delta.item_id)
        await connection.conversation.item.delete(item_id=delta.item_id)
        await connection.input_audio_buffer.clear()
        await connection.conversation.item.create(
            item={"type": "message", "role": "user", "content": [{"type": "input_text", "text": "And now?"}]}
        )
        await connection.session.update(session={"type": "realtime", "output_modalities": ["text"]})
        await connection.input_audio_buffer.append(audio=loud(1500))
        await connection.response.create(response={"metadata": {"a": "b"}})
        await talk.get("response.done")

    talk = play(scene)
    path = tmp_path / "events.jsonl"
    path.write_text("\n".join(talk.frames))
    assert len({event.type for event in talk.events}) >= 25
    assert script("pipecat_script.py", "parse", str(path)) == {"num_events": len(talk.frames), "unknown": []}


@pytest.mark.parametrize("detection", ["default", "none", "server"])
def test_livekit_speaks_listens_interrupts_and_keeps_its_context(detection: str):
    result = script("livekit_script.py", "{base}", detection)
    assert result["greeted"] == ANSWER
    assert result["replied"] == ANSWER
    assert result["cut_bytes"] < ANSWER[0]
    assert result["marks"] == ["started", "stopped"]
    assert (result["errors"], result["warnings"]) == ([], [])
