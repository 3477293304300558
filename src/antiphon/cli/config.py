"""`antiphon config`: what is in force, where each value came from, and whether deploy files are right."""

import json
import re
from typing import Annotated

import typer

app = typer.Typer(help="Show and check deploy configurations.", no_args_is_help=True, pretty_exceptions_enable=False)

BAD_CONFIG_EXIT = 2
# Dotted names of engine flags as `serve` takes them, applied to every stage.
_FLAG = re.compile(r"^([a-z][a-z0-9_-]*)=(.*)$")


@app.command()
def show(
    deploy_config: Annotated[
        str, typer.Option("--deploy-config", help="A shipped file's name, or a path.", metavar="FILE|NAME")
    ] = "minicpmo_4_5.yaml",
    stage_overrides: Annotated[
        str, typer.Option("--stage-overrides", help='Such as \'{"0": {"max_num_seqs": 8}}\'.', metavar="JSON")
    ] = "",
    platform: Annotated[str, typer.Option(help="Whose overlay applies: cuda, rocm, npu, xpu, musa or cpu.")] = "cuda",
    flag: Annotated[
        list[str] | None,
        typer.Option("--flag", help="An engine flag of `serve` for every stage.", metavar="NAME=VALUE"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print every value in force and where it came from; exit 2 if it cannot be used."""
    from antiphon.config.dump import rows
    from antiphon.config.env import read_environment
    from antiphon.config.load import DeployReading, read_deploy
    from antiphon.config.optimizations import SWITCHES
    from antiphon.config.problems import DeployError

    try:
        reading = read_deploy(
            deploy_config,
            platform=platform,
            flags=_parse_flags(flag or []),
            stage_overrides=stage_overrides,
            environment=read_environment(),
        )
    except DeployError as error:
        reading = DeployReading(config=None, problems=error.problems, ignored=())
    found = rows(reading.config) if reading.config else []
    if as_json:
        document = {
            "values": {path: {"value": value, "origin": origin} for path, value, origin in found},
            "ignored": [
                {"path": item.path, "value": item.value, "origin": str(item.origin), "reason": item.reason}
                for item in reading.ignored
            ],
            "problems": [str(problem) for problem in reading.problems],
        }
        typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        notes = {f"optimizations.{name}": f"{item.exactness.value}: {item.about}" for name, item in SWITCHES.items()}
        if found:
            _print_table(
                f"Deploy configuration {deploy_config}",
                ("Setting", "Value", "From", "About"),
                [(path, _word(value), origin, notes.get(path, "")) for path, value, origin in found],
            )
        if reading.ignored:
            _print_table(
                "Accepted, without effect here",
                ("Setting", "Value", "From", "Why"),
                [(item.path, _word(item.value), str(item.origin), item.reason) for item in reading.ignored],
            )
        for problem in reading.problems:
            typer.echo(f"error: {problem}", err=True)
    if reading.problems:
        raise typer.Exit(BAD_CONFIG_EXIT)


@app.command()
def validate(
    files: Annotated[list[str], typer.Argument(help="Deploy files: shipped names or paths.", metavar="FILE…")],
) -> None:
    """Check deploy files with the overlay of every platform; one line per problem, exit 2 if there is any."""
    from antiphon.config.deploy import PLATFORMS
    from antiphon.config.load import read_deploy

    is_bad = False
    for name in files:
        # A problem that does not depend on the platform is printed once.
        problems = dict.fromkeys(
            str(item) for platform in PLATFORMS for item in read_deploy(name, platform=platform).problems
        )
        for problem in problems:
            typer.echo(problem)
        if not problems:
            typer.echo(f"{name}: ok")
        is_bad = is_bad or bool(problems)
    if is_bad:
        raise typer.Exit(BAD_CONFIG_EXIT)


def _parse_flags(texts: list[str]) -> dict[str, object]:
    """`max-num-seqs=8` to a name and a value as YAML would read it."""
    import yaml

    from antiphon.config.problems import DeployError, Problem

    flags: dict[str, object] = {}
    for text in texts:
        match = _FLAG.match(text)
        if match is None:
            raise DeployError([Problem("--flag", f"{text!r} is not NAME=VALUE, such as max-num-seqs=8")])
        flags[match[1].replace("-", "_")] = yaml.safe_load(match[2])
    return flags


def _word(value: object) -> str:
    return "–" if value is None else json.dumps(value, ensure_ascii=False) if not isinstance(value, str) else value


def _print_table(title: str, columns: tuple[str, ...], lines: list[tuple[str, ...]]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold")
    for line in lines:
        table.add_row(*(escape(cell) for cell in line))
    Console().print(table)
