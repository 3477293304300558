"""Every `antiphon …` in documents, examples and help texts, and the reference's recipes, are lines that are taken."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from antiphon.cli import main as command_line
from antiphon.cli import serve_run
from antiphon.cli.serve_args import known_engine_flags
from antiphon.cli.serve_flags import IGNORED_FLAGS

ROOT = Path(__file__).parents[2]
DOCUMENTS = (
    *(ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "Makefile"),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "deploy").rglob("*.md")),
    *sorted((ROOT / "benchmarks").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*")),
    *sorted((ROOT / "src/antiphon/cli").glob("*.py")),
)
_COMMAND = re.compile(r"^\s*(?:\$ |\t@?)?(antiphon [a-z]+(?: [^`\n]*)?)$", re.MULTILINE)
_INLINE = re.compile(r"`(antiphon [a-z]+ [^`\n]*)`")
_GROUPS = ("serve", "generate", "verify", "gate", "page", "duplex", "replay", "conformance")
_ELISION = re.compile(r"…|\.\.\.( |$)|<|\bDIR\b|\bPATH\b|\bFILE\b")  # a form, not a command

# As the reference's recipe and deployment guides start this model; only their places differ.
MODEL = "openbmb/MiniCPM-o-4_5"
NATIVE = "vllm_omni/model_executor/models/minicpmo_4_5/minicpmo45_native.jinja"
RECIPE = f"{MODEL} --omni --trust-remote-code --chat-template {NATIVE} --chat-template-content-format openai"
RECIPES = (
    f"{RECIPE} --host 0.0.0.0 --port 8099",
    f"{RECIPE} --host 0.0.0.0 --port 8099 --deploy-config minicpmo_4_5_2gpu.yaml",
    f"{RECIPE} --port 8099 --deploy-config minicpmo_4_5_3gpu.yaml --allowed-local-media-path /",
    f"--model {MODEL} --omni --port 8099 --served-model-name omni MiniCPM-o --api-key one two",
    f"""{RECIPE} --stage-overrides '{{"0": {{"max_num_seqs": 8}}}}' --stage-init-timeout 300 --init-timeout 600""",
    f"""{RECIPE} --limit-mm-per-prompt '{{"image": 8}}' --media-io-kwargs '{{"video": {{"fps": 1}}}}'""",
    f"{RECIPE} --interleave-mm-strings --enable-prompt-tokens-details --disable-log-stats --log-stats",
    f"{RECIPE} --gpu-memory-utilization 0.8 --max-model-len 8192 --enforce-eager --no-async-chunk --api-server-count 1",
    f"{RECIPE} --default-chat-template-kwargs '{{\"enable_thinking\": false}}' --shutdown-timeout 5 --batch-timeout 10",
    f"{RECIPE} --worker-backend multi_process --omni-lb-policy round-robin --otlp-traces-endpoint http://localhost:4317",
    f"{RECIPE} --allowed-origins '[\"*\"]' --allow-credentials --enable-log-requests --enable-log-outputs",
)


def commands(pattern: re.Pattern[str] = _COMMAND) -> list[str]:
    found: set[str] = set()
    for path in DOCUMENTS:
        if path.is_file() and path.suffix in (".md", ".sh", ".py", ""):
            text = path.read_text(encoding="utf-8").replace("\\\n", " ")
            found.update(match.strip() for match in pattern.findall(text))
    return sorted(command for command in found if not _ELISION.search(command) and not _is_sentence(command))


def _is_sentence(command: str) -> bool:
    """A line of prose that happens to begin with the name."""
    return command.split()[1] not in (*_GROUPS, "bench", "eval", "checkpoint", "config", "version")


def words_of(command: str) -> list[str]:
    words = shlex.split(re.sub(r"\s#.*", "", command))[1:]
    ends = [index for index, word in enumerate(words) if word in ("|", "&", "&&", ">", ";")]
    return words[: ends[0]] if ends else words


def leaves(command: Any) -> list[Any]:
    """The commands below a group, or the command itself."""
    below = getattr(command, "commands", None)
    return [command] if below is None else [leaf for child in below.values() for leaf in leaves(child)]


def parse(words: list[str]) -> dict[str, Any]:
    """What the command line's own parser makes of *words*; nothing is run."""
    root: Any = typer.main.get_command(command_line.app)
    taken: list[dict[str, Any]] = []
    for leaf in leaves(root):
        leaf.callback = lambda **values: taken.append(values)
    root.main(args=words, prog_name="antiphon", standalone_mode=False)
    assert len(taken) == 1, "nothing was to be run"
    return taken[0]


def test_commands_of_every_kind_are_found() -> None:
    found = [words_of(command) for command in commands()]
    assert len(found) > 40
    assert {words[0] for words in found} >= {*_GROUPS, "bench", "config", "checkpoint"}
    kinds = {tuple(words[:2]) for words in found}
    assert {("bench", "serve"), ("bench", "compare"), ("bench", "omni-duplex-eval")} <= kinds


@pytest.mark.parametrize("mention", commands(_INLINE))
def test_a_command_and_its_flags_that_are_mentioned_exist(mention: str) -> None:
    words = words_of(mention)
    command: Any = typer.main.get_command(command_line.app)
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    known = {flag for option in command.params for flag in (*option.opts, *option.secondary_opts)}
    if command.name == "serve":
        known |= {*IGNORED_FLAGS, *known_engine_flags()}
    assert {word.partition("=")[0] for word in words if word.startswith("--")} <= {*known, "--help"}


@pytest.mark.parametrize("command", commands())
def test_the_parser_takes_the_command(command: str) -> None:
    words = words_of(command)
    if "--help" not in words:
        parse(words)


@pytest.mark.parametrize(
    "command", [command for command in commands() if words_of(command)[0] == "serve" and "--help" not in command]
)
def test_a_server_would_start(command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert _starts(command, monkeypatch, tmp_path)


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_references_recipes_start_a_server(recipe: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert _starts(f"antiphon serve {recipe}", monkeypatch, tmp_path)


def _starts(command: str, monkeypatch: pytest.MonkeyPatch, folder: Path) -> bool:
    """Through everything that looks at the flags. Paths that only exist elsewhere become *folder*."""
    taken: list[object] = []
    monkeypatch.setattr(serve_run, "run", lambda plan, *, is_check: taken.append(plan))
    words = [str(folder) if word.startswith(("~", "/", "$")) else word for word in words_of(command)]
    assert command_line.main(words) == 0
    return bool(taken)
