"""The `antiphon` command: mounts the subcommands and turns our errors into one line and exit code 2."""

import sys
from typing import Any

import typer

from antiphon import __version__
from antiphon.cli import bench, checkpoint, config
from antiphon.cli import eval as evaluate
from antiphon.cli.conformance import conformance
from antiphon.cli.duplex import duplex
from antiphon.cli.gate import gate
from antiphon.cli.generate import OrderedCommand, generate
from antiphon.cli.page import page
from antiphon.cli.replay import replay
from antiphon.cli.serve import ServeCommand, serve
from antiphon.cli.verify import verify
from antiphon.core.errors import AntiphonError

BAD_INPUT = 2
INTERRUPTED = 130  # what shells expect after Ctrl-C
# The base of all complaints about the command line. Newer versions of typer carry click inside, so it is found so.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]

_HELP = """Real-time serving for omni voice models, first of all MiniCPM-o 4.5.

\b
Examples:
  antiphon serve
  antiphon serve openbmb/MiniCPM-o-4_5 --host 0.0.0.0
  antiphon generate tiny --prompt "Hello, who are you?" --output hello.wav
  antiphon generate openbmb/MiniCPM-o-4_5 --image cat.jpg --prompt "What is this?" --modalities text
  antiphon generate ~/models/MiniCPM-o-4_5 --audio question.ogg --stream --output answer.wav
  antiphon duplex question.wav --url ws://127.0.0.1:8099
  antiphon checkpoint make-tiny ./tiny-model
  antiphon checkpoint inspect ./tiny-model
  antiphon config show --deploy-config minicpmo_4_5_2gpu.yaml
  antiphon verify ./golden
"""

app = typer.Typer(
    name="antiphon",
    help=_HELP,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command("serve", cls=ServeCommand)(serve)
app.command("generate", cls=OrderedCommand)(generate)
app.command("verify")(verify)
app.command("gate")(gate)
app.command("page")(page)
app.command("duplex")(duplex)
app.command("replay")(replay)
app.command("conformance")(conformance)
app.add_typer(checkpoint.app, name="checkpoint")
app.add_typer(config.app, name="config")
app.add_typer(bench.app, name="bench")
app.add_typer(evaluate.app, name="eval")


@app.command("version")
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


def main(argv: list[str] | None = None) -> int:
    """Run the command line (None: this process's) and return its exit code."""
    args = sys.argv[1:] if argv is None else argv
    try:
        status = app(args=args or ["--help"], prog_name="antiphon", standalone_mode=False)
    except AntiphonError as error:
        typer.echo(f"antiphon: error: {_one_line(str(error))}", err=True)
        return BAD_INPUT
    except _UsageError as error:
        typer.echo(_usage_line(error), err=True)
        return BAD_INPUT
    except typer.Abort:
        typer.echo("antiphon: interrupted", err=True)
        return INTERRUPTED
    return status if isinstance(status, int) else 0


def _usage_line(error: Any) -> str:
    message = str(error.format_message())
    if "\n" in message:  # a group without a subcommand: this is its help
        return message
    command = error.ctx.command_path if error.ctx is not None else "antiphon"
    return f"antiphon: error: {message.rstrip('.')} (see '{command} --help')"


def _one_line(text: str) -> str:
    """Without line breaks and control characters: a file name may hold anything."""
    return "".join(character if character.isprintable() else " " for character in text)


if __name__ == "__main__":
    sys.exit(main())
