"""The Gradio example in a real browser, against the tiny model.

Gradio's needs do not go together with the development environment's, so it has an environment of its own.
"""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from antiphon.config.load import load_deploy
from antiphon.pipeline.build import build_omni_model
from antiphon.pipeline.local_engine import LocalEngine
from antiphon.serving.app import Services, create_app
from antiphon.serving.engine_pipeline import EnginePipeline
from antiphon.serving.served_model import describe_model

ROOT = Path(__file__).parents[2]
CHROMIUM = shutil.which("chromium")
PYTHON = Path(os.environ.get("ANTIPHON_DEMO_PYTHON", ROOT / ".venv-demo" / "bin" / "python"))
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine"),
    pytest.mark.skipif(not PYTHON.is_file(), reason="there is no environment with Gradio; see examples/README.md"),
]

# In a process of its own: the driver's event loop stays out of this one.
VISIT = """
import sys
from playwright.sync_api import sync_playwright

url, chromium, shot = sys.argv[1:]
flags = ["--no-sandbox", "--headless", "--disable-gpu", "--disable-quic", "--disable-background-networking",
         "--autoplay-policy=no-user-gesture-required"]
with sync_playwright() as driver:
    browser = driver.chromium.launch(executable_path=chromium, args=flags)
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.route(lambda address: not address.startswith(url) and address.startswith("http"), lambda route: route.abort())
    troubles = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.goto(url)
    page.get_by_label("Message").fill("Hello")
    page.get_by_role("button", name="Voice and options").click()
    page.get_by_label("number input for Most text tokens").fill("32")
    page.get_by_role("button", name="Send").click()
    answer = page.get_by_label("Answer")
    page.wait_for_function("() => document.querySelector('textarea[disabled]')?.value.length > 0", timeout=60_000)
    text = answer.input_value()
    duration = page.evaluate('''async () => {
      const loaded = () =>
        performance.getEntriesByType("resource").map((entry) => entry.name).find((name) => /[.]wav/.test(name));
      while (!loaded()) await new Promise((done) => setTimeout(done, 100));
      const sound = loaded();
      const context = new OfflineAudioContext(1, 1, 24000);
      return (await context.decodeAudioData(await (await fetch(sound)).arrayBuffer())).duration;
    }''')
    page.screenshot(path=shot)
    browser.close()
assert text.strip(), "no text"
assert duration > 0.3, duration
assert not troubles, troubles
"""


@pytest.fixture
def url(tiny_checkpoint: Path, listen: Any) -> Iterator[str]:
    model = build_omni_model(tiny_checkpoint, device=torch.device("cpu"))
    deploy = load_deploy("cpu.yaml", platform="cpu")
    engine = LocalEngine(model, deploy)
    engine.start()
    described = describe_model(model, deploy, root="tiny", names=("tiny",), created_s=1, is_tiny=True)
    with listen(
        create_app(Services(pipeline=EnginePipeline(engine), model=described, voices=engine.voices))
    ) as address:
        yield address


@pytest.fixture
def demo(url: str, tmp_path: Path) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(PYTHON), str(ROOT / "examples" / "gradio_demo.py"), "--minicpmo45-api-base", f"{url}/v1"]
    quiet = {"GRADIO_ANALYTICS_ENABLED": "False", "HF_HUB_OFFLINE": "1", "GRADIO_TEMP_DIR": str(tmp_path)}
    with (tmp_path / "demo.log").open("w") as log:
        process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port)],
            env={**os.environ, **quiet},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        address = f"http://127.0.0.1:{port}"
        wait_for(address, process, tmp_path / "demo.log")
        yield address
    finally:
        process.terminate()
        process.wait(10)


def wait_for(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except (urllib.error.URLError, TimeoutError):
            time.sleep(0.2)
    raise AssertionError(log.read_text())


def test_the_gradio_page_answers_with_text_and_speech(demo: str, tmp_path: Path) -> None:
    shot = tmp_path / "demo.png"
    result = subprocess.run(
        [sys.executable, "-c", VISIT, demo, str(CHROMIUM), str(shot)],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert result.returncode == 0, result.stderr + (tmp_path / "demo.log").read_text()
    with Image.open(shot) as picture:
        assert picture.size == (1280, 900)
