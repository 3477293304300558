"""`antiphon bench compare` on results that `bench serve` has just written."""

import json
from pathlib import Path

import pytest
import typer

from antiphon.cli import bench
from antiphon.core.errors import AntiphonError


def run(*args: str) -> int:
    app = typer.Typer()
    app.add_typer(bench.app, name="bench")
    status = app(args=["bench", *args], standalone_mode=False)
    return status if isinstance(status, int) else 0


def measure(url: str, folder: Path, name: str, *args: str) -> str:
    common = ["--base-url", url, "--num-prompts", "12", "--max-concurrency", "2", "--random-input-len", "8"]
    saving = ["--save-detailed", "--result-dir", str(folder), "--result-filename", name, "--disable-tqdm"]
    assert run("serve", *common, *saving, *args) == 0
    return str(folder / name)


def test_a_slower_server_is_called_worse_and_different_work_is_refused(fake_server, tmp_path, capsys) -> None:
    fast = measure(fake_server.url, tmp_path, "fast.json")
    fake_server.gap_s = 0.02
    slow = measure(fake_server.url, tmp_path, "slow.json")
    other = measure(fake_server.url, tmp_path, "other.json", "--seed", "5")
    capsys.readouterr()

    document = tmp_path / "comparison.json"
    assert run("compare", fast, slow, "--json", str(document)) == 0
    assert "Mean E2EL (ms)" in capsys.readouterr().out
    figures = json.loads(document.read_text())["levels"][0]["figures"]
    assert figures["mean_e2el_ms"]["change"] == "worse"
    assert figures["mean_e2el_ms"]["ratio"] > 1.5

    assert run("compare", fast, slow, "--max-regression", "10") == 1
    assert "worse by more than 10 %" in capsys.readouterr().err
    assert run("compare", slow, fast, "--max-regression", "10") == 0
    with pytest.raises(AntiphonError, match="measured different work: seed: 0 and 5"):
        run("compare", fast, other)
    assert run("compare", fast, other, "--ignore", "seed") == 0
