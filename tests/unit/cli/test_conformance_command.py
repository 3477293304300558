import typer
from typer.testing import CliRunner

from antiphon.cli.conformance import conformance
from antiphon.client.conformance.target import PROFILES

app = typer.Typer()
app.command()(conformance)


def test_profiles_are_explained():
    result = CliRunner().invoke(app, ["ws://localhost", "--list-profiles"])
    assert result.exit_code == 0
    assert all(name in result.output for name in PROFILES)


def test_an_unknown_profile_is_refused():
    result = CliRunner().invoke(app, ["ws://localhost", "--profile", "none"])
    assert result.exit_code == 2


def test_a_server_that_is_not_there_fails_the_case():
    result = CliRunner().invoke(app, ["http://127.0.0.1:9", "--case", "3", "--case", "66"])
    assert result.exit_code == 1
    assert "1 failed" in result.output
    assert "needs the model" in result.output
