"""`antiphon gate` on the tiny model: what is on by default passes, and planted faults do not."""

import json
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import typer

from antiphon.cli.gate import gate
from antiphon.offline.gate import run as gate_run
from antiphon.offline.gate.run import Choice, run_gates
from antiphon.offline.gate.subject import Subject
from antiphon.offline.gate.trials import GATES
from antiphon.offline.gate.verdict import GateResult, Verdict
from antiphon.pipeline.build import build_omni_model
from antiphon.pipeline.omni_model import OmniModel

DRAWS = 2048


def command(*args: str) -> int:
    app = typer.Typer()
    app.command()(gate)
    with torch.no_grad():
        status = app(args=list(args), standalone_mode=False)
    torch.set_grad_enabled(True)
    return status if isinstance(status, int) else 0


@pytest.fixture(scope="module")
def model(tiny_checkpoint: Path) -> OmniModel:
    return build_omni_model(tiny_checkpoint, device=torch.device("cpu"))


def changed(model: OmniModel, stage: str, name: str, factor: float) -> OmniModel:
    """A copy with one weight multiplied."""
    part = deepcopy(getattr(model, stage))
    with torch.no_grad():
        part.get_parameter(name).mul_(factor)
    return replace(model, **{stage: part})


def try_one(model: OmniModel, candidate: OmniModel, switch: str, fast: object) -> GateResult:
    with torch.no_grad():
        (result,) = run_gates(Subject(model, candidate, DRAWS), [Choice(switch, fast)])  # type: ignore[arg-type]
    return result


def test_every_switch_that_is_on_by_default_passes_or_cannot_be_shown_here(tiny_checkpoint, tmp_path, capsys) -> None:
    document, page = tmp_path / "gates.json", tmp_path / "gates.md"
    args = ["--all", "--device", "cpu", "--draws", str(DRAWS), "--json", str(document), "--markdown", str(page)]
    assert command(str(tiny_checkpoint), *args) == 0
    gates = {found["switch"]: found for found in json.loads(document.read_text())["gates"]}
    shown = {name for name, found in gates.items() if found["verdict"] == "pass"}
    assert shown == {
        "talker_window_steps",
        "talker_sampler",
        "audio_stream_batch",
        "early_stop",
        "adaln_table",
        "hift_noise",
        "voice_template_cache",
    }
    assert all(min(gates[name]["used"].values()) > 0 for name in shown)
    assert all(gates[name]["verdict"] == "not_shown" for name in gates.keys() - shown)
    assert "7 passed, 0 failed, 8 not shown here" in capsys.readouterr().out
    assert "| `talker_sampler` | distribution | eager path → counter | pass |" in page.read_text()


def test_not_shown_fails_when_everything_must_be_shown(tiny_checkpoint, capsys) -> None:
    args = ["--switch", "cfm_graph", "--device", "cpu"]
    assert command(str(tiny_checkpoint), *args) == 0
    assert command(str(tiny_checkpoint), *args, "--strict") == 1


def test_a_slightly_changed_weight_is_not_lossless(model) -> None:
    candidate = changed(model, "talker", "model.layers.0.mlp.down_proj.weight", 1.02)
    result = try_one(model, candidate, "talker_window_steps", 25)
    assert result.verdict is Verdict.FAIL
    assert "speeches with other codes" in result.reason


def test_a_sharpened_head_shifts_the_law_of_the_codes(model) -> None:
    candidate = changed(model, "talker", "head_code.0.weight", 1.1)
    result = try_one(model, candidate, "talker_sampler", "counter")
    assert result.verdict is Verdict.FAIL
    assert "p-value: filtered" in result.reason


def test_a_changed_modulation_is_more_than_rounding(model) -> None:
    name = next(
        name for name, _ in model.code2wav.named_parameters() if "adaLN" in name and name.endswith("weight")
    )  # fmt: skip
    result = try_one(model, changed(model, "code2wav", name, 1.5), "adaln_table", True)
    assert result.verdict is Verdict.FAIL


def test_an_encoder_with_a_changed_weight_hears_something_else(model) -> None:
    name = next(name for name, _ in model.thinker.named_parameters() if name.startswith("apm") and "fc1.weight" in name)
    result = try_one(model, changed(model, "thinker", name, 1.05), "audio_stream_batch", True)
    assert result.verdict is Verdict.FAIL


def test_another_reply_is_seen_at_the_speech_boundary(model) -> None:
    candidate = changed(model, "thinker", "llm.model.layers.1.mlp.down_proj.weight", 1.05)
    result = try_one(model, candidate, "early_stop", True)
    assert result.verdict is Verdict.FAIL


def test_fewer_steps_of_the_flow_are_more_than_a_bounded_change_for_random_weights(model) -> None:
    result = try_one(model, model, "cfm_steps", 5)
    assert result.verdict is Verdict.FAIL
    assert "mean log-mel difference" in result.reason


def test_a_fast_path_that_is_never_taken_fails(model, monkeypatch) -> None:
    dead = replace(GATES["hift_noise"], counters=("hift_noise", "never_counted"))
    monkeypatch.setitem(gate_run.GATES, "hift_noise", dead)
    result = try_one(model, model, "hift_noise", "counter")
    assert result.verdict is Verdict.FAIL
    assert result.reason == "the fast path was not taken: counter never_counted is 0"


def test_a_setting_that_the_engine_refuses_is_refused_before_anything_runs(tiny_checkpoint) -> None:
    with pytest.raises(Exception, match="dit_precision is bf16"):
        command(str(tiny_checkpoint), "--switch", "dit_precision=bf16", "--device", "cpu")


def test_either_all_or_some_switches_must_be_named(tiny_checkpoint) -> None:
    for args in ([], ["--all", "--switch", "cfm_graph"]):
        with pytest.raises(Exception, match="give --all, or one or more --switch"):
            command(str(tiny_checkpoint), *args)
