"""Asks and scores a data set of multiple-choice questions, with the flags of its command."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from antiphon.cli.bench_report import check_plot
from antiphon.cli.eval_ask import AskFlags, ask_server
from antiphon.cli.eval_report import ReportFlags, finish, score_and_report
from antiphon.core.errors import ConfigError
from antiphon.evals.items import EvalItem
from antiphon.evals.outputs.folder import read_outputs, read_run
from antiphon.evals.outputs.selection import outputs_of
from antiphon.evals.scoring.letters import LetterPart

# Accuracy is measured on text alone: with speech asked for, results are not comparable.
_TEXT_ONLY: Mapping[str, object] = {"modalities": ["text"], "chat_template_kwargs": {"enable_thinking": False}}


@dataclass(frozen=True, kw_only=True)
class ChoiceSet:
    """One data set. `read_items` None: outputs that are there are scored, nothing is asked."""

    kind: str
    facts: Mapping[str, object]
    read_items: Callable[[], Sequence[EvalItem]] | None
    rules: str
    extract: Callable[[str], str]


def run_choices(ctx: typer.Context, choices: ChoiceSet) -> None:
    """Do what the command of *ctx* was asked for; its shared flags are read from there."""
    given: Mapping[str, Any] = ctx.params
    folder: Path = given["outputs"]
    check_plot(given["plot"])
    if choices.read_items is None:
        found = read_outputs(folder)
    else:
        items = choices.read_items()[: given["num_items"]]
        flags = AskFlags(
            base_url=given["base_url"],
            model=given["model"],
            api_key=given["api_key"],
            backend=given["backend"],
            max_concurrency=given["max_concurrency"],
            extra_body=given["extra_body"],
            timeout_s=given["timeout_s"],
            outputs=folder,
            overwrite=given["overwrite"],
            has_progress=not given["disable_tqdm"],
        )
        ask_server(choices.kind, items, flags, choices.facts, _TEXT_ONLY)
        found = outputs_of(items, read_outputs(folder))
    run = read_run(folder)
    reporting = ReportFlags(
        folder=given["report_dir"] or folder,
        plot=given["plot"],
        seed=given["seed"],
        has_progress=not given["disable_tqdm"],
    )
    part = LetterPart(choices.rules, choices.extract)
    dataset = str(run.get("dataset", choices.kind))
    finish(score_and_report(choices.kind, found, [part], reporting, dataset=dataset, run=run))


def find_table(folder: Path) -> Path:
    """The only table in *folder*. Raises ConfigError if there is none, or several."""
    tables = sorted([*folder.rglob("*.parquet"), *folder.glob("*.jsonl")])
    if len(tables) != 1:
        raise ConfigError(f"{folder}: holds {len(tables)} tables (.parquet, .jsonl); name one with --table")
    return tables[0]
