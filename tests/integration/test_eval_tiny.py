"""Every data set of `antiphon eval` through a server with the tiny model, as `antiphon serve` puts it together."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import typer

from antiphon.cli import eval as evaluate
from antiphon.config.load import load_deploy
from antiphon.pipeline.build import build_omni_model
from antiphon.pipeline.eager.voices import DEFAULT_VOICE
from antiphon.pipeline.local_engine import LocalEngine
from antiphon.serving.app import Services, create_app
from antiphon.serving.engine_pipeline import EnginePipeline
from antiphon.serving.served_model import describe_model

MINI = Path(__file__).parents[1] / "data" / "evals"


@pytest.fixture(scope="module")
def base_url(tiny_checkpoint: Path, listen: Any) -> Iterator[str]:
    model = build_omni_model(tiny_checkpoint, device=torch.device("cpu"))
    deploy = load_deploy("cpu.yaml", platform="cpu")
    engine = LocalEngine(model, deploy)
    engine.start()
    assert model.folder is not None
    services = Services(
        pipeline=EnginePipeline(engine),
        model=describe_model(model, deploy, root="tiny", names=("tiny",), created_s=1, is_tiny=True),
        voices=engine.voices,
        default_voice=model.folder / DEFAULT_VOICE,
    )
    with listen(create_app(services)) as url:
        yield url


def run(kind: str, base_url: str, folder: Path, *args: str) -> dict[str, Any]:
    app = typer.Typer()
    app.add_typer(evaluate.app, name="eval")
    common = ["--base-url", base_url, "--outputs", str(folder), "--output-len", "12", "--disable-tqdm"]
    assert not app(args=["eval", kind, *common, *args], standalone_mode=False)
    return json.loads((folder / f"{kind}.json").read_text())


def test_texts_are_spoken_and_their_flow_is_scored(base_url, tmp_path, capsys) -> None:
    dataset = str(MINI / "seed_tts")
    args = ["--dataset", dataset, "--recogniser", "none", "--encoder", "none", "--max-concurrency", "3"]
    found = run("seed-tts", base_url, tmp_path, *args)
    assert found["counts"] == {"items": 3, "failed": 0, "not_scored": 0}
    assert found["metrics"]["audio_s"]["mean"] > 0
    assert found["metrics"]["ttfp_ms"]["mean"] > 0
    assert found["run"]["server"]["model"] == "tiny"
    rows = [json.loads(line) for line in (tmp_path / "outputs.jsonl").read_text().splitlines()]
    assert all((tmp_path / row["wav"]).is_file() for row in rows)


@pytest.mark.parametrize("pack", ["qwen", "minicpm-interleave"])
def test_questions_about_clips_are_answered(base_url, tmp_path, capsys, pack) -> None:
    args = ["--dataset", str(MINI / "daily_omni"), "--inline-local-video", "--pack-mode", pack]
    found = run("daily-omni", base_url, tmp_path, *args)
    assert found["counts"] == {"items": 3, "failed": 0, "not_scored": 0}
    assert found["daily_omni_evaluated_ok"] == 3


@pytest.mark.parametrize("pack", ["minicpm-frames", "minicpm-interleave", "video_url"])
def test_questions_about_videos_are_answered(base_url, tmp_path, capsys, pack) -> None:
    args = ["--dataset", str(MINI / "video_mme"), "--inline-local-video", "--pack-mode", pack, "--use-subtitle"]
    found = run("video-mme", base_url, tmp_path, *args)
    assert found["counts"] == {"items": 3, "failed": 0, "not_scored": 0}
    assert found["videomme_submitted"] == 3
