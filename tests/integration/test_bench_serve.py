"""`antiphon bench serve` from the command line to table, result file and plot, against a small real server."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer

from antiphon.cli import bench
from antiphon.core.errors import AntiphonError


def run(*args: str) -> int:
    """Run the command as the main program does and return its exit code."""
    app = typer.Typer()
    app.add_typer(bench.app, name="bench")
    status = app(args=["bench", "serve", "--disable-tqdm", *args], standalone_mode=False)
    return status if isinstance(status, int) else 0


def result(folder: Path) -> dict[str, Any]:
    (path,) = folder.glob("*.json")
    return json.loads(path.read_text())


@pytest.mark.parametrize("shape", ["vllm-omni", "openai"])
def test_both_shapes_of_streamed_speech_are_measured_alike(fake_server, tmp_path, capsys, shape) -> None:
    fake_server.shape = shape
    args = ["--base-url", fake_server.url, "--num-prompts", "6", "--max-concurrency", "2", "--random-input-len", "8"]
    assert run(*args, "--save-result", "--result-dir", str(tmp_path)) == 0
    table, found = capsys.readouterr().out, result(tmp_path)
    assert found["completed"] == 6
    assert found["failed"] == 0
    assert found["total_output_tokens"] == 6 * 4
    assert found["total_input_tokens"] == 6 * 7
    assert found["total_audio_duration_s"] == pytest.approx(6 * 1.5)
    assert found["num_audio_ttfp_samples"] == 6
    assert found["mean_audio_rtf"] > 0
    assert found["model_id"] == "fake-model"
    assert "Total audio frames generated:            216000" in table


def test_a_closed_loop_never_has_more_than_its_limit_under_way(fake_server, capsys) -> None:
    fake_server.gap_s = 0.005
    assert run("--base-url", fake_server.url, "--num-prompts", "9", "--max-concurrency", "3") == 0
    assert fake_server.most_under_way == 3


def test_an_open_loop_sends_every_request_at_its_rate(fake_server, tmp_path, capsys) -> None:
    args = ["--base-url", fake_server.url, "--num-prompts", "10", "--request-rate", "100", "--save-detailed"]
    assert run(*args, "--result-dir", str(tmp_path)) == 0
    found = result(tmp_path)
    assert found["request_rate"] == 100
    assert found["start_times"] == sorted(found["start_times"])
    assert found["start_times"][-1] > 0.02
    assert "Request rate configured (RPS):           100.00" in capsys.readouterr().out


def test_levels_are_measured_one_after_another_and_drawn(fake_server, tmp_path, capsys) -> None:
    plot = tmp_path / "plots" / "run.png"
    args = ["--max-concurrency", "1,2,4", "--num-prompts", "2,4,8", "--num-warmups", "2", "--save-result"]
    assert run("--base-url", fake_server.url, *args, "--result-dir", str(tmp_path), "--plot", str(plot)) == 0
    levels = result(tmp_path)["levels"]
    assert [(level["max_concurrency"], level["completed"]) for level in levels] == [(1, 2), (2, 4), (4, 8)]
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert len(fake_server.bodies) == 2 + 14
    assert "| concurrency |" in capsys.readouterr().out


def test_prompts_differ_between_levels_and_repeat_with_the_seed(fake_server, capsys) -> None:
    args = ["--base-url", fake_server.url, "--max-concurrency", "1,1", "--num-prompts", "1", "--random-input-len", "20"]
    run(*args)
    run(*args)
    prompts = [body["messages"][0]["content"] for body in fake_server.bodies]
    assert prompts[0] != prompts[1]
    assert prompts[:2] == prompts[2:]


def test_the_request_is_the_references_and_extra_body_wins(fake_server, capsys) -> None:
    args = ["--extra-body", '{"temperature": 0.5, "chat_template_kwargs": {"enable_thinking": false}}', "--ignore-eos"]
    run("--base-url", fake_server.url, "--num-prompts", "1", "--modalities", "text", "--random-output-len", "9", *args)
    body = fake_server.bodies[0]
    assert body["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
    assert body["modalities"] == ["text"]
    assert (body["max_tokens"], body["temperature"], body["ignore_eos"]) == (9, 0.5, True)
    assert body["chat_template_kwargs"] == {"enable_thinking": False}


def test_failed_requests_are_counted_named_and_give_exit_code_one(fake_server, tmp_path, capsys) -> None:
    fake_server.fail_every = 3
    args = ["--base-url", fake_server.url, "--num-prompts", "6", "--max-concurrency", "1", "--save-result"]
    assert run(*args, "--result-dir", str(tmp_path)) == 1
    assert (result(tmp_path)["completed"], result(tmp_path)["failed"]) == (4, 2)
    assert "HTTP 500" in capsys.readouterr().err


def test_what_the_server_says_of_itself_and_counts_is_kept(fake_server, tmp_path, capsys) -> None:
    args = ["--base-url", fake_server.url, "--num-prompts", "5", "--num-warmups", "3", "--save-result"]
    run(*args, "--result-dir", str(tmp_path))
    server = result(tmp_path)["server"]
    assert server["version"] == {"version": "fake", "switches": {"graphs": True}}
    assert server["counters"] == {'antiphon:graph_hits_total{stage="0"}': 5.0}


def test_the_speech_endpoint_is_measured(fake_server, tmp_path, capsys) -> None:
    args = ["--backend", "openai-audio-speech", "--num-prompts", "2", "--random-input-len", "5", "--save-result"]
    assert run("--base-url", fake_server.url, *args, "--result-dir", str(tmp_path)) == 0
    found = result(tmp_path)
    assert found["total_audio_duration_s"] == pytest.approx(3.0)
    assert found["total_output_tokens"] == 0
    assert len(fake_server.bodies[0]["input"].split()) == 5


def test_random_media_of_each_kind_are_sent(fake_server, capsys) -> None:
    buckets = "{(16, 16, 1): 1, (16, 16, 3): 1, (0, 1, 1): 1}"
    args = ["--dataset-name", "random-mm", "--random-mm-base-items-per-request", "3", "--num-prompts", "6"]
    assert run("--base-url", fake_server.url, *args, "--random-mm-bucket-config", buckets) == 0
    kinds = {part["type"] for body in fake_server.bodies for part in body["messages"][0]["content"]}
    assert kinds == {"image_url", "video_url", "input_audio", "text"}


def test_a_key_is_sent_and_never_written_down(fake_server, tmp_path, capsys, monkeypatch) -> None:
    fake_server.api_key = "secret-key"
    args = ["bench", "serve", "--base-url", fake_server.url, "--num-prompts", "1", "--api-key", "secret-key"]
    monkeypatch.setattr("sys.argv", ["antiphon", *args])
    assert run(*args[2:], "--save-result", "--result-dir", str(tmp_path)) == 0
    (path,) = tmp_path.glob("*.json")
    assert "secret-key" not in path.read_text()


def test_a_server_that_is_not_there_is_one_clear_line() -> None:
    with pytest.raises(AntiphonError, match=r"http://127\.0\.0\.1:9 is not ready"):
        run("--base-url", "http://127.0.0.1:9", "--ready-check-timeout-sec", "0", "--num-prompts", "1")


def test_warm_up_requests_that_all_fail_stop_the_run(fake_server) -> None:
    fake_server.fail_every = 1
    with pytest.raises(AntiphonError, match="every warm-up request failed: HTTP 500"):
        run("--base-url", fake_server.url, "--num-prompts", "4", "--num-warmups", "2")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--backend", "openai-realtime"], "--backend: unknown"),
        (["--dataset-name", "videomme"], "--dataset-name: unknown"),
        (["--dataset-name", "seed-tts"], "needs --dataset-path"),
        (["--max-concurrency", "0"], "--max-concurrency"),
        (["--max-concurrency", "1,2", "--num-prompts", "1,2,3"], "--num-prompts has 3 numbers for 2"),
        (["--request-rate", "0"], "--request-rate"),
        (["--extra-body", "[1]"], "must be a JSON object"),
        (["--percentile-metrics", "ttft,speed"], "unknown speed"),
        (["--metric-percentiles", "101"], "from 0 to 100"),
        (["--goodput", "ttft"], "--goodput"),
        (["--base-url", "gpu:8000"], "--base-url"),
        (["--plot", "run.gif"], "must end in"),
        (["--random-mm-bucket-config", "nonsense", "--dataset-name", "random-mm"], "bucket-config"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_sent(args, message) -> None:
    with pytest.raises(AntiphonError, match=message):
        run(*args)


def test_a_plot_without_matplotlib_names_the_extra(monkeypatch) -> None:
    monkeypatch.setattr("antiphon.cli.bench_report.find_spec", lambda name: None)
    with pytest.raises(AntiphonError, match=r"pip install 'antiphon\[bench\]'"):
        run("--plot", "run.png")
