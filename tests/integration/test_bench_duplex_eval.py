"""`antiphon bench omni-duplex-eval`, all three steps, against a scripted server and a judge with planted scores."""

import asyncio
import json
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import typer
from aiohttp import web
from realtime_server import SCRIPTS, running, settings_of

from antiphon.bench.duplex_eval import session as duplex_session
from antiphon.cli import bench
from antiphon.core.errors import AntiphonError
from antiphon.realtime.script import DEFAULT_SCRIPT
from antiphon.serving.realtime.scripted_app import scripted_hub

MINI = Path(__file__).parents[1] / "data" / "omni_duplex_eval"
FAST = ("--pace", "as-fast-as-possible")


def command(*args: str) -> int:
    app = typer.Typer()
    app.add_typer(bench.app, name="bench")
    status = app(args=["bench", "omni-duplex-eval", *args], standalone_mode=False)
    return status if isinstance(status, int) else 0


@contextmanager
def on_a_thread(serve: Callable[[Callable[[str], None], asyncio.Event], Any]) -> Iterator[str]:
    """Run the coroutine *serve* on a loop of its own; it tells its address, and ends with the event."""
    addresses: list[str] = []
    started, loop = threading.Event(), asyncio.new_event_loop()
    stop = asyncio.Event()

    def tell(address: str) -> None:
        addresses.append(address)
        started.set()

    def run() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(serve(tell, stop))
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    assert started.wait(10)
    try:
        yield addresses[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(20)


@contextmanager
def realtime_server(profile: str = "") -> Iterator[str]:
    async def serve(tell: Callable[[str], None], stop: asyncio.Event) -> None:
        async with running(scripted_hub(SCRIPTS.get(profile, DEFAULT_SCRIPT), settings_of(profile))) as url:
            tell(f"{url}/v1/realtime?duplex=1")
            await stop.wait()

    with on_a_thread(serve) as url:
        yield url


@dataclass
class FakeJudge:
    """Scores as planted: descriptions 2 for moment and 1.5 for content, corrections 1, reminders 0."""

    url: str = ""
    status: int = 200
    bodies: list[dict[str, Any]] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.bodies.append(body)
        if self.status != 200:
            return web.Response(status=self.status, text="no such model")
        content = body["messages"][0]["content"]
        prompt = content if isinstance(content, str) else content[-1]["text"]
        reply = '{"score": 0}'
        if "temporal_score" in prompt:
            reply = 'My verdict:\n```json\n{"temporal_score": 2, "is_relevant": 1}\n```'
        elif "content_score" in prompt:
            reply = '{"content_score": 1.5}'
        elif "corrects" in prompt:
            reply = '{"score": 1}'
        return web.json_response({"choices": [{"message": {"role": "assistant", "content": reply}}]})


@pytest.fixture
def judge() -> Iterator[FakeJudge]:
    fake = FakeJudge()

    async def serve(tell: Callable[[str], None], stop: asyncio.Event) -> None:
        app = web.Application(client_max_size=16 << 20)
        app.router.add_post("/v1/chat/completions", fake.answer)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        tell(f"http://127.0.0.1:{runner.addresses[0][1]}")
        await stop.wait()
        await runner.cleanup()

    with on_a_thread(serve) as url:
        fake.url = url
        yield fake


def generate(url: str, root: Path, *args: str) -> int:
    return command(
        "generate", "--dataset", str(MINI), "--response-root", str(root), "--url", url, "--concurrency", "4", *args
    )  # fmt: skip


def evaluate(judge: FakeJudge, root: Path, scores: Path, *args: str) -> int:
    roots = ["--response-root", str(root), "--score-root", str(scores)]
    frames = ["--judge-base-url", judge.url, "--judge-model", "j", "--judge-video-mode", "frame-sample"]
    return command("evaluate", "--dataset", str(MINI), *roots, *frames, *args)


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def test_three_steps_give_the_planted_scores(judge, tmp_path, capsys) -> None:
    root, scores = tmp_path / "responses", tmp_path / "scores"
    with realtime_server() as url:
        assert generate(url, root) == 0
    said = read(root / "RTD_OCR" / "ocr0.json")
    assert [item["sentence"] for item in said] == ["This is a scripted answer."]
    assert 2.0 <= said[0]["start"] <= said[0]["end"] < 3.0  # behind the first quiet second
    meta = read(root / "RTD_OCR" / "ocr0.meta.json")
    assert (meta["clock"], meta["response_done"], meta["drain_timeout"]) == ("media", True, False)
    metrics = read(root / "duplex_metrics.json")
    assert len(metrics["duplex_session_metrics"]) == 4
    assert 2000 <= metrics["duplex_stream_ttft_ms"]["p50"] < 3000

    assert evaluate(judge, root, scores, "--eval-workers", "2") == 0
    score = read(scores / "RTD_OCR" / "ocr0.json")
    assert (score["temporal"]["avg_score"], score["content"]["score"]) == (2.0, 1.5)
    assert (score["judge_model"], score["response_meta"]["clock"]) == ("j", "media")
    events = read(scores / "PR_event_reminder" / "event0.json")["pr"]["events"]
    assert [(event["reminder_s"], event["score"], event["reply"] is None) for event in events] == [
        (0.5, 0, False),
        (200.0, 0, True),  # nothing was said then, so nobody was asked
    ]
    assert all(body["temperature"] == 0.1 and body["max_tokens"] == 1200 for body in judge.bodies)

    summary = tmp_path / "summary.json"
    assert command("summarize", "--score-root", str(scores), "--json", str(summary)) == 0
    found = read(summary)
    assert found["rtd"]["mean_content_score"] == 1.5
    assert found["rtd"]["mean_avg_temporal_score"] == 2.0
    assert found["pr"]["mean_all_success"] == 0.5
    assert set(found["pr"]["by_task"]) == {"correction", "proactive_reminder"}
    assert "mean_all_success" in capsys.readouterr().out


def test_a_run_goes_on_where_it_was(tmp_path, capsys) -> None:
    with realtime_server() as url:
        assert generate(url, tmp_path, *FAST, "--split", "RTD_OCR") == 0
        written = (tmp_path / "RTD_OCR" / "ocr0.json").stat().st_mtime_ns
        assert generate(url, tmp_path, *FAST) == 0
        assert "3 done, 1 done before, 0 failed" in capsys.readouterr().out
        assert (tmp_path / "RTD_OCR" / "ocr0.json").stat().st_mtime_ns == written
        assert generate(url, tmp_path, *FAST, "--ids", "ocr0", "--overwrite") == 0
    assert (tmp_path / "RTD_OCR" / "ocr0.json").stat().st_mtime_ns > written
    assert len(read(tmp_path / "duplex_metrics.json")["duplex_session_metrics"]) == 4


def test_times_that_are_not_the_medias_are_refused_unless_allowed(judge, tmp_path) -> None:
    root, scores = tmp_path / "responses", tmp_path / "scores"
    with realtime_server() as url:
        assert generate(url, root, *FAST, "--split", "PR_correction") == 0
    assert read(root / "PR_correction" / "corr0.meta.json")["clock"] == "invalid"
    with pytest.raises(AntiphonError, match=r"its clock is not the media's \(1 of 1 responses\)"):
        evaluate(judge, root, scores)
    assert judge.bodies == []
    assert evaluate(judge, root, scores, "--allow-invalid-clock") == 0
    assert read(scores / "PR_correction" / "corr0.json")["pr"]["all_success"] == 1


def test_a_response_without_a_record_of_its_clock_is_refused(judge, tmp_path) -> None:
    (tmp_path / "PR_correction").mkdir()
    (tmp_path / "PR_correction" / "corr0.json").write_text('[{"sentence": "No.", "start": 1, "end": 2}]')
    with pytest.raises(AntiphonError, match="its clock is not the media's"):
        evaluate(judge, tmp_path, tmp_path / "scores")


def test_scores_are_kept_until_they_are_overwritten_and_a_refusing_judge_leaves_none(judge, tmp_path, capsys) -> None:
    root, scores = tmp_path / "responses", tmp_path / "scores"
    (root / "PR_correction").mkdir(parents=True)
    (root / "PR_correction" / "corr0.json").write_text('[{"sentence": "No.", "start": 1, "end": 2}]')
    (root / "PR_correction" / "corr0.meta.json").write_text('{"clock": "media"}')
    judge.status = 404
    assert evaluate(judge, root, scores) == 1
    assert "answers 404: no such model" in capsys.readouterr().err
    assert not (scores / "PR_correction").exists()
    judge.status = 200
    assert evaluate(judge, root, scores) == 0
    num_asked = len(judge.bodies)
    assert evaluate(judge, root, scores) == 0
    assert len(judge.bodies) == num_asked
    assert evaluate(judge, root, scores, "--overwrite") == 0
    assert len(judge.bodies) == num_asked + 1


def test_a_session_that_dies_fails_its_sample_and_no_other(tmp_path, capsys) -> None:
    with realtime_server("dying") as url:
        assert generate(url, tmp_path, *FAST) == 1
    assert "the session ended before everything was said: engine_error" in capsys.readouterr().err
    assert not list(tmp_path.glob("RTD_*/*.json"))


def test_a_server_without_the_key_or_without_any_server_is_told_in_words(tmp_path, capsys) -> None:
    with realtime_server("keyed") as url:
        assert generate(url, tmp_path, *FAST, "--split", "RTD_OCR") == 1
        assert "401" in capsys.readouterr().err
        assert generate(url, tmp_path, *FAST, "--split", "RTD_OCR", "--api-key", "secret") == 0
    assert generate("ws://127.0.0.1:9/v1/realtime", tmp_path, *FAST, "--split", "RTD_Omni") == 1
    assert "Cannot connect" in capsys.readouterr().err


def test_more_sessions_than_the_server_has_wait_for_a_free_one(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(duplex_session, "_SLOT_RETRY_S", 0.1)
    folder = tmp_path / "many"
    shutil.copytree(MINI, folder)
    row = json.loads((folder / "samples.jsonl").read_text().splitlines()[0])
    many = "\n".join(json.dumps({**row, "id": f"many{index}"}) for index in range(10))
    (folder / "samples.jsonl").write_text(many)
    with realtime_server() as url:
        args = ["--dataset", str(folder), "--response-root", str(tmp_path / "out"), "--url", url]
        assert command("generate", *args, *FAST, "--concurrency", "10") == 0
    assert len(list((tmp_path / "out" / "RTD_OCR").glob("*.meta.json"))) == 10


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--fps", "2"), "a unit of one second takes one frame"),
        (("--mix", "none"), "--mix"),
        (("--clock", "wall"), "--clock"),
        (("--pace", "slow"), "--pace"),
        (("--url", "http://x"), "--url"),
        (("--ref-audio", "/nowhere.wav"), "--ref-audio"),
    ],
)
def test_settings_that_cannot_be_honoured_are_refused(tmp_path, args, message) -> None:
    with pytest.raises(AntiphonError, match=message):
        command("generate", "--dataset", str(MINI), "--response-root", str(tmp_path), *args)
