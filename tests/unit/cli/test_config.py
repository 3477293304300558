import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from antiphon.cli.config import app

RUNNER = CliRunner()


def test_show_prints_values_origins_and_names_without_effect() -> None:
    result = RUNNER.invoke(app, ["show"], env={"COLUMNS": "240"})
    assert result.exit_code == 0
    assert "base file" not in result.stdout
    assert "minicpmo_4_5.yaml:" in result.stdout
    assert "optimizations.cfm_graph" in result.stdout


def test_show_json_names_the_override_and_the_flag() -> None:
    arguments = ["show", "--json", "--deploy-config", "cpu", "--platform", "cpu", "--flag", "max-num-seqs=2"]
    result = RUNNER.invoke(app, [*arguments, "--stage-overrides", '{"0": {"max_num_seqs": 3}}'])
    assert result.exit_code == 0
    values = json.loads(result.stdout)["values"]
    assert values["stages.0.max_num_seqs"] == {"value": 3, "origin": "stage override (--stage-overrides)"}
    assert values["stages.1.max_num_seqs"] == {"value": 2, "origin": "command line (--max-num-seqs)"}
    assert values["stages.0.dtype"]["value"] == "float32"


def test_a_rollback_variable_is_in_force() -> None:
    result = RUNNER.invoke(app, ["show", "--json"], env={"ANTIPHON_CFM_STEPS": "5"})
    assert json.loads(result.stdout)["values"]["optimizations.cfm_steps"]["value"] == 5


@pytest.mark.parametrize(
    "arguments",
    [
        ["--stage-overrides", '{"0": {"gpu_memory_utilisation": 0.3}}'],
        ["--flag", "nonsense"],
        ["--platform", "gpu"],
        ["--deploy-config", "missing"],
    ],
)
def test_show_refuses_with_one_line_and_code_two(arguments: list[str]) -> None:
    result = RUNNER.invoke(app, ["show", *arguments])
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1


def test_validate_prints_one_line_a_problem(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("pipeline: minicpmo_4_6\nsesion_mode: turn\nstages: []\n", encoding="utf-8")
    good = RUNNER.invoke(app, ["validate", "minicpmo_4_5.yaml", "cpu"])
    assert (good.exit_code, good.stdout) == (0, "minicpmo_4_5.yaml: ok\ncpu: ok\n")
    result = RUNNER.invoke(app, ["validate", str(bad), "cpu"])
    assert result.exit_code == 2
    assert len(result.stdout.splitlines()) == 3
