"""The page at `/` in a real browser: it sends, it shows, it plays. Needs the system's Chromium."""

import shutil
import subprocess
import sys
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
from antiphon.serving.settings import ServeSettings

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")

# In a process of its own: the driver's event loop stays out of this one.
VISIT = """
import sys
from playwright.sync_api import sync_playwright

url, chromium, width, picture, sound, shot = sys.argv[1:]
flags = ["--no-sandbox", "--headless", "--disable-gpu", "--disable-quic", "--disable-background-networking",
         "--autoplay-policy=no-user-gesture-required"]
PLAY = '''async () => {
  const audio = document.querySelector(".turn.assistant audio");
  if (!audio.readyState) await new Promise((done) => { audio.onloadedmetadata = done; });
  await audio.play();
  await new Promise((done) => setTimeout(done, 300));
  return [audio.duration, audio.currentTime, document.documentElement.scrollWidth];
}'''
with sync_playwright() as driver:
    browser = driver.chromium.launch(executable_path=chromium, args=flags)
    page = browser.new_page(viewport={"width": int(width), "height": 800})
    troubles = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.goto(url)
    page.locator("details summary").click()
    page.fill("#key", "secret")
    page.locator("#key").blur()
    page.locator("#tiny").wait_for()
    page.fill("#max", "24")
    page.set_input_files("#file", [picture, sound])
    page.locator(".chip").nth(1).wait_for()
    page.fill("#text", "Hello")
    page.click("#send")
    page.locator(".turn.assistant audio").wait_for(timeout=60_000)
    text = page.inner_text(".turn.assistant p:nth-of-type(2)")
    duration_s, played_s, scroll_width = page.evaluate(PLAY)
    page.screenshot(path=shot)
    page.goto(url + "/health")
    assert "healthy" in page.content()
    browser.close()
assert text.strip(), "no text"
assert duration_s > 0.5 and played_s > 0.1, (duration_s, played_s)
assert scroll_width <= int(width), "the page scrolls sideways"
assert not troubles, troubles
"""


@pytest.fixture(scope="module")
def url(tiny_checkpoint: Path, listen: Any) -> Iterator[str]:
    model = build_omni_model(tiny_checkpoint, device=torch.device("cpu"))
    deploy = load_deploy("cpu.yaml", platform="cpu")
    engine = LocalEngine(model, deploy)
    engine.start()
    services = Services(
        pipeline=EnginePipeline(engine),
        model=describe_model(model, deploy, root="tiny", names=("tiny",), created_s=1, is_tiny=True),
        voices=engine.voices,
        settings=ServeSettings(api_keys=("secret",)),
    )
    with listen(create_app(services)) as address:
        yield address


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_sends_a_message_and_plays_the_answer(
    url: str, tmp_path: Path, width: int, encode_audio: Any, tone: Any
) -> None:
    Image.new("RGB", (60, 40), (180, 90, 40)).save(tmp_path / "picture.png")
    (tmp_path / "sound.wav").write_bytes(encode_audio(tone(1.0)))
    shot = tmp_path / "page.png"
    arguments = [url, str(CHROMIUM), str(width), *map(str, (tmp_path / "picture.png", tmp_path / "sound.wav", shot))]
    result = subprocess.run(
        [sys.executable, "-c", VISIT, *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    assert result.returncode == 0, result.stderr
    with Image.open(shot) as picture:
        assert picture.size == (width, 800)
