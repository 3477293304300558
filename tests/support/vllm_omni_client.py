"""vLLM-Omni's own client module: its files alone, out of its wheel, and a scripted server to run it against.

The package is not installed: `vllm_omni/clients` imports alone. The wheel is kept beside the virtual environment's
packages; where it is not there and no package index can be reached, the tests that need it are skipped.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from realtime_server import running

from antiphon.client.conformance.sounds import tone
from antiphon.realtime.script import Answer, Piece, Script
from antiphon.serving.realtime.hub import Hub
from antiphon.serving.realtime.scripted_app import scripted_hub
from antiphon.serving.realtime.settings import RealtimeSettings

RELEASE = "vllm-omni==0.30.0"
FOLDER = Path(sys.prefix) / "vllm-omni-clients"
ANSWER = "This is a scripted answer."
ANSWER_BYTES = 4 * 48_000
# Pieces far enough apart that a test can act between two of them.
SCRIPT = Script(
    answers=(Answer(pieces=(Piece("This "), Piece("is a "), Piece("scripted "), Piece("answer."))),), gap_ms=120
)


def unpacked() -> Path:
    """The folder to import from; fetched once."""
    if (FOLDER / "vllm_omni" / "clients" / "duplex.py").exists():
        return FOLDER
    with tempfile.TemporaryDirectory(dir=sys.prefix) as work:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", work, RELEASE]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        except subprocess.TimeoutExpired:
            pytest.skip("the package index does not answer")
        if done.returncode != 0:
            pytest.skip(f"{RELEASE} cannot be fetched: {done.stderr.strip().splitlines()[-1:]}")
        (wheel,) = Path(work).glob("*.whl")
        fresh = Path(work) / "fresh"
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(fresh, [name for name in archive.namelist() if name.startswith("vllm_omni/clients/")])
        try:
            os.rename(fresh, FOLDER)
        except OSError:  # another worker was faster
            assert FOLDER.exists()
    return FOLDER


def client_module(name: str = "duplex") -> ModuleType:
    """`vllm_omni.clients.<name>`, as it was published."""
    folder = str(unpacked())
    if folder not in sys.path:
        sys.path.append(folder)
    return import_module(f"vllm_omni.clients.{name}")


Scene = Callable[[Hub, str], Awaitable[None]]


def play(scene: Scene, *, script: Script = SCRIPT, settings: RealtimeSettings | None = None) -> None:
    """Run *scene* against a scripted server; no session may be left behind."""

    async def run() -> None:
        hub = scripted_hub(script, settings)
        async with running(hub) as url:
            await asyncio.wait_for(scene(hub, url), 30)
            for _ in range(300):
                if hub.num_sessions == 0 and hub.admission.num_taken == 0:
                    return
                await asyncio.sleep(0.01)
            raise AssertionError("a session was left behind")

    asyncio.run(run())


def speech(seconds: float, rate_hz: int = 16_000) -> bytes:
    """Loud PCM16."""
    return (tone(seconds * 1000, rate_hz) * 32767).astype("<i2").tobytes()
