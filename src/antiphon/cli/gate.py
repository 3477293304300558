"""`antiphon gate`: show that an optimisation keeps what its class promises, or that it does not."""

from pathlib import Path
from typing import Annotated

import typer

CPU_DRAWS = 5_120
CUDA_DRAWS = 1_000_192  # about as many as the specification asks for, in whole batches


def gate(
    model: Annotated[
        str, typer.Argument(help="tiny, a folder, a hub id, or dummy (real sizes, random values).")
    ] = "tiny",
    switch: Annotated[
        list[str] | None,
        typer.Option(help="A switch of `optimizations:`, at its default or at VALUE.", metavar="NAME[=VALUE]"),
    ] = None,
    is_all: Annotated[bool, typer.Option("--all", help="Every switch that is on by default.")] = False,
    device: Annotated[
        str | None, typer.Option(help="cpu, cuda or cuda:N.", show_default="a GPU if there is one")
    ] = None,
    dtype: Annotated[str, typer.Option(help="Of Thinker and Talker.")] = "auto",
    draws: Annotated[
        int | None,
        typer.Option(help="Draws of each law.", min=256, show_default=f"{CPU_DRAWS}, {CUDA_DRAWS} on a GPU"),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="A switch that this device cannot show fails too.")] = False,
    json_path: Annotated[Path | None, typer.Option("--json", help="Write the figures here.", metavar="FILE")] = None,
    markdown: Annotated[
        Path | None, typer.Option(help="Put the table into this page, in its place.", metavar="FILE")
    ] = None,
) -> None:
    """Run the gates of optimisations: the same input with a switch off and on, compared as the switch's class demands.

    Lossless switches must change nothing. Where only chance may differ, draws are tested against their law; where only
    rounding may, scores and spectra are compared; bounded changes must stay within limits on the same codes and noise.
    A fast path that was not taken fails. Exit code 1 if any gate fails.

    \b
    Examples:
      antiphon gate --all
      antiphon gate --switch talker_window_steps=8 --switch talker_sampler
      antiphon gate dummy --device cuda --all --json gates.json --markdown docs/gates.md
      antiphon gate openbmb/MiniCPM-o-4_5 --switch cfm_steps=8
    """
    import json

    import torch

    from antiphon.core.errors import ConfigError
    from antiphon.offline.choices import parse_device, parse_dtype
    from antiphon.offline.gate.report import (
        describe_subject,
        render_json,
        render_line,
        render_summary,
        write_markdown,
    )
    from antiphon.offline.gate.run import default_choices, parse_choice, run_gates
    from antiphon.offline.gate.subject import Subject
    from antiphon.offline.gate.verdict import Verdict
    from antiphon.pipeline.build import build_omni_model

    if is_all == bool(switch):
        raise ConfigError("give --all, or one or more --switch NAME")
    choices = default_choices() if is_all else [parse_choice(text) for text in switch or []]
    torch.set_grad_enabled(False)
    place = parse_device(device)
    loaded = build_omni_model(
        model, device=place, dtype=parse_dtype(dtype), load_format="dummy" if model == "dummy" else "auto"
    )
    num_draws = draws or (CUDA_DRAWS if place.type == "cuda" else CPU_DRAWS)
    subject = Subject(model=loaded, candidate=loaded, num_draws=num_draws)
    results = []
    for result in run_gates(subject, choices):
        results.append(result)
        typer.echo(render_line(result))
    typer.echo(render_summary(results))
    facts = describe_subject(subject, model)
    if json_path is not None:
        text = json.dumps(render_json(results, facts), indent=1, ensure_ascii=False, allow_nan=False)
        try:
            json_path.write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"--json {json_path}: {error.strerror}") from None
    if markdown is not None:
        write_markdown(results, facts, markdown, "cuda" if place.type == "cuda" else "cpu")
    bad = {Verdict.FAIL, Verdict.NOT_SHOWN} if strict else {Verdict.FAIL}
    if any(result.verdict in bad for result in results):
        raise typer.Exit(1)
