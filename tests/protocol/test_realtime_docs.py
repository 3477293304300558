"""The examples of docs/realtime.md do what they say."""

import asyncio
import re
import sys
import wave
from pathlib import Path

import pytest
from realtime_openai import served

from antiphon.audio.wav import to_pcm16
from antiphon.realtime.script import tone

PAGE = Path(__file__).parents[2] / "docs" / "realtime.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES, ids=["vllm", "openai", "openbmb"])
def test_an_example_saves_the_answer(example: str, tmp_path: Path):
    for name, rate_hz in (("question.wav", 16_000), ("question_24k.wav", 24_000)):
        with wave.open(str(tmp_path / name), "wb") as file:
            file.setparams((1, 2, rate_hz, 0, "NONE", ""))
            file.writeframes(to_pcm16(tone(1600, rate_hz)).tobytes())

    async def run() -> str:
        async with served() as (base_url, _):
            address = base_url.removeprefix("http://").removesuffix("/v1")
            code = example.replace("localhost:8099", address)
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", code, cwd=tmp_path, stdout=asyncio.subprocess.PIPE
            )
            out, _ = await asyncio.wait_for(process.communicate(), 60)
            assert process.returncode == 0
            return out.decode()

    assert asyncio.run(run()) == "This is a scripted answer."
    with wave.open(str(tmp_path / "answer.wav")) as answer:
        assert answer.getnframes() == 4 * 24_000
