"""Visits the live page in the system's Chromium and prints what was seen, as JSON. Run as a script.

In a process of its own: the driver's event loop stays out of the tests'. One function for each visit.
"""

import json
import sys
import urllib.request
from typing import Any

from playwright.sync_api import Page, sync_playwright

FLAGS = (
    "--no-sandbox",
    "--headless",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--autoplay-policy=no-user-gesture-required",
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
)
PATIENCE_MS = 30_000
LEVELS = ("error", "warning")
WATCH_POLICY = (
    "addEventListener('securitypolicyviolation', (e) => console.error('policy', e.violatedDirective, e.blockedURI))"
)
# Some states last shorter than a look at the page takes.
WATCH_STATES = """addEventListener("DOMContentLoaded", () => {
  window.states = [];
  const state = document.getElementById("state");
  new MutationObserver(() => window.states.push(state.textContent)).observe(state, { childList: true });
})"""
TONE = """async () => {
  const { Resampler } = await import("/resample.js");
  const rates = [48000, 44100, 16000, 8000, 22050];
  return rates.map((rate) => {
    const resampler = new Resampler(rate, 16000);
    const wave = Float32Array.from({ length: rate }, (_, at) => Math.sin(2 * Math.PI * 440 * at / rate));
    const out = [];
    for (let at = 0; at < rate; at += 128) out.push(...resampler.push(wave.subarray(at, at + 128)));
    const middle = out.slice(1000, -1000);
    const ideal = (at) => Math.sin(2 * Math.PI * 440 * (at + 1000) / 16000);
    const error = Math.max(...middle.map((value, at) => Math.abs(value - ideal(at))));
    const high = new Resampler(rate, 16000);
    const hiss = Float32Array.from({ length: rate }, (_, at) => Math.sin(2 * Math.PI * 11000 * at / rate));
    const leak = rate > 22050 ? Math.max(...high.push(hiss).slice(200).map(Math.abs)) : 0;
    return { length: out.length, error, leak };
  });
}"""


class Visit:
    """A page with ears: console, errors, and the frames of its sockets."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.troubles: list[str] = []
        self.sent: list[dict[str, Any]] = []
        self.received: list[dict[str, Any]] = []
        page.add_init_script(WATCH_POLICY)
        page.add_init_script(WATCH_STATES)
        page.on("console", lambda line: line.type in LEVELS and self.troubles.append(line.text))
        page.on("pageerror", lambda error: self.troubles.append(str(error)))
        page.on("websocket", self._listen)

    def _listen(self, socket: Any) -> None:
        socket.on("framesent", lambda frame: self.sent.append(json.loads(frame)))
        socket.on("framereceived", lambda frame: self.received.append(json.loads(frame)))

    def wait_state(self, text: str) -> None:
        self.page.locator("#state", has_text=text).wait_for(timeout=PATIENCE_MS)

    def texts(self, selector: str) -> list[str]:
        return self.page.locator(selector).all_inner_texts()

    def number(self, selector: str) -> float:
        return float(self.page.inner_text(selector).split()[0])

    def facts(self) -> dict[str, Any]:
        page = self.page
        return {
            "troubles": self.troubles,
            "sounding": int(page.get_attribute("#heard", "data-sounding") or 0),
            "spoken": self.texts(".turn.assistant .spoken"),
            "ahead": self.texts(".turn.assistant .ahead"),
            "facts": self.texts(".turn.assistant .facts"),
            "user": self.texts(".turn.user"),
            "notes": self.texts("#log .note"),
            "trouble": page.inner_text("#trouble") if page.locator("#trouble").is_visible() else "",
            "states": page.evaluate("window.states"),
            "gaps": int(page.inner_text("#gaps")),
            "width": page.evaluate("document.documentElement.scrollWidth"),
        }


def converse(visit: Visit, shot: str) -> dict[str, Any]:
    """Speak, be answered, press Interrupt, lose the line, be answered again, stop."""
    page = visit.page
    page.goto(visit.url + "/live")
    page.locator("#scripted").wait_for()
    page.click("#camera")
    page.locator("#view").wait_for()
    page.click("#start")
    visit.wait_state("Listening")
    visit.wait_state("Speaking")
    page.wait_for_timeout(1500)
    page.screenshot(path=shot)
    page.keyboard.press("Escape")
    visit.wait_state("Listening")
    interrupted = visit.facts()
    page.wait_for_timeout(300)
    with urllib.request.urlopen(visit.url + "/test/cut") as answer:
        assert answer.status == 200
    page.locator("#log .note", has_text="resumed").wait_for(timeout=PATIENCE_MS)
    visit.wait_state("Speaking")
    visit.wait_state("Listening")
    answered = visit.facts()
    figures = {name: visit.number(f"#{name}") for name in ("decision", "first", "trip", "heard", "gaps")}
    page.keyboard.press("m")
    visit.wait_state("Muted")
    page.click("#start")
    visit.wait_state("Stopped")
    page.wait_for_timeout(200)
    return {
        "interrupted": interrupted,
        "answered": answered,
        "figures": figures,
        "frames": [event.get("video_frames") for event in visit.sent if event["type"] == "input_audio_buffer.append"],
        "acks": [event for event in visit.sent if event["type"] == "playback.ack"],
        "told": [event["event"] for event in visit.received if event["type"] == "playback.acknowledged"],
        "types": [event["type"] for event in visit.received],
        "seqs": [event["server_event_seq"] for event in visit.received if "server_event_seq" in event],
        "troubles": visit.troubles,
    }


def speak_over(visit: Visit, shot: str) -> dict[str, Any]:
    """Speak while the answer is still heard."""
    page = visit.page
    page.goto(visit.url + "/live")
    page.click("#start")
    page.locator(".turn.cut").first.wait_for(timeout=PATIENCE_MS)
    facts = visit.facts()
    page.screenshot(path=shot)
    page.click("#start")
    return {**facts, "done": [event["response"] for event in visit.received if event["type"] == "response.done"]}


def interrupt_without_a_line(visit: Visit, shot: str) -> dict[str, Any]:
    """The line is cut while the answer is heard, and Interrupt pressed before it is resumed."""
    page = visit.page
    page.goto(visit.url + "/live")
    page.click("#start")
    visit.wait_state("Speaking")
    page.wait_for_timeout(800)
    with urllib.request.urlopen(visit.url + "/test/cut") as answer:
        assert answer.status == 200
    page.click("#interrupt")
    page.locator(".turn.cut").wait_for()
    page.screenshot(path=shot)
    page.locator("#log .note", has_text="resumed").wait_for(timeout=PATIENCE_MS)
    visit.wait_state("Listening")
    page.wait_for_timeout(500)
    facts = visit.facts()
    page.click("#start")
    visit.wait_state("Stopped")
    return {
        **facts,
        "told": [event["event"] for event in visit.received if event["type"] == "playback.acknowledged"],
        "types": [event["type"] for event in visit.received],
    }


def simply_talk(visit: Visit, shot: str) -> dict[str, Any]:
    """Speak, be answered to the end."""
    page = visit.page
    page.goto(visit.url)
    page.click("#start")
    visit.wait_state("Speaking")
    page.locator(".turn.assistant .facts", has_text="of speech").first.wait_for(timeout=PATIENCE_MS)
    facts = visit.facts()
    page.screenshot(path=shot)
    page.click("#start")
    visit.wait_state("Stopped")
    return facts


def bring_a_key(visit: Visit, shot: str) -> dict[str, Any]:
    """Be asked for a key, give a wrong one, then the right one."""
    page = visit.page
    page.goto(visit.url + "/live")
    page.click("#start")
    page.locator("#trouble").wait_for()
    asked = page.inner_text("#trouble")
    page.screenshot(path=shot)
    page.fill("#key", "wrong")
    page.click("#start")
    page.locator("#trouble", has_text="does not know").wait_for()
    page.fill("#key", "secret")
    page.click("#start")
    visit.wait_state("Listening")
    page.click("#start")
    visit.wait_state("Stopped")
    return {"asked": asked, "trouble": page.locator("#trouble").is_visible()}


def be_refused(visit: Visit, shot: str) -> dict[str, Any]:
    """All places are taken, then one is free."""
    page = visit.page
    page.goto(visit.url + "/live")
    page.click("#start")
    visit.wait_state("All places are taken")
    page.screenshot(path=shot)
    with urllib.request.urlopen(visit.url + "/test/free") as answer:
        assert answer.status == 200
    visit.wait_state("Listening")
    page.click("#start")
    visit.wait_state("Stopped")
    return visit.facts()


def meet_a_server_that_queues(visit: Visit, shot: str) -> dict[str, Any]:
    """A server played by this script: a queue, a warning, an error, the end. Options are sent with the first event."""
    page = visit.page
    sockets: list[Any] = []
    said: list[dict[str, Any]] = []

    def serve(socket: Any) -> None:
        sockets.append(socket)
        socket.on_message(lambda frame: said.append(json.loads(frame)))

    page.route_web_socket("**/v1/realtime*", serve)
    page.goto(visit.url + "/live")
    page.click("summary")
    page.fill("#instructions", "Be brief.")
    page.set_input_files("#voice", files=[{"name": "me.wav", "mimeType": "audio/wav", "buffer": b"RIFF"}])
    page.uncheck("#overlap")
    page.click("#start")
    while not said:
        page.wait_for_timeout(50)
    tell = lambda **event: sockets[0].send(json.dumps(event))  # noqa: E731
    tell(type="session.queued", position=2, queue_length=3, estimated_wait_s=19.2)
    visit.wait_state("Waiting")
    waiting = page.inner_text("#state")
    page.screenshot(path=shot)
    tell(type="session.queue_done")
    visit.wait_state("Connecting")
    tell(type="session.created", session={"id": "sess_1", "model": "played"})
    visit.wait_state("Listening")
    tell(type="session.warning", message="the server goes away in 30 s", server_event_seq=1)
    tell(type="error", error={"code": "input_backpressure", "message": "too much input waits"}, server_event_seq=2)
    page.locator("#trouble").wait_for()
    complaint = page.inner_text("#trouble")
    tell(type="session.expired", session_id="sess_1", reason="idle_ttl_expired", server_event_seq=3)
    visit.wait_state("Stopped")
    return {
        "waiting": waiting,
        "first": said[0],
        "complaint": complaint,
        "end": page.inner_text("#trouble"),
        **visit.facts(),
    }


def resample(visit: Visit, shot: str) -> dict[str, Any]:
    visit.page.goto(visit.url + "/live")
    return {"tones": visit.page.evaluate(TONE), "troubles": visit.troubles}


_ALL = (
    meet_a_server_that_queues,
    converse,
    speak_over,
    interrupt_without_a_line,
    simply_talk,
    bring_a_key,
    be_refused,
    resample,
)
VISITS = {visit.__name__: visit for visit in _ALL}


def main() -> None:
    name, url, chromium, width, sound, shot = sys.argv[1:]
    with sync_playwright() as driver:
        flags = [*FLAGS, f"--use-file-for-fake-audio-capture={sound}"]
        browser = driver.chromium.launch(executable_path=chromium, args=flags)
        context = browser.new_context(
            viewport={"width": int(width), "height": 800}, permissions=["microphone", "camera"]
        )
        facts = VISITS[name](Visit(context.new_page(), url), shot)
        browser.close()
    json.dump(facts, sys.stdout)


if __name__ == "__main__":
    main()
