"""Runs a data set through a server for `antiphon eval`, with progress on stderr."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from antiphon.bench.bench_request import BodyOptions
from antiphon.bench.settings import Backend, Target, parse_backend
from antiphon.cli.bench_setup import parse_base_url, parse_extra_body, parse_headers
from antiphon.cli.eval_progress import shown_bar
from antiphon.evals.ask import Asked, AskSettings, ask
from antiphon.evals.items import EvalItem
from antiphon.evals.outputs.folder import OutputWriter


@dataclass(frozen=True, kw_only=True)
class AskFlags:
    """How the server is asked, as it was given."""

    base_url: str
    model: str
    api_key: str
    backend: str
    max_concurrency: int
    extra_body: str
    timeout_s: float
    outputs: Path
    overwrite: bool
    has_progress: bool


def ask_server(
    kind: str, items: Sequence[EvalItem], flags: AskFlags, facts: Mapping[str, object], defaults: Mapping[str, object]
) -> None:
    """Fill the outputs' folder.

    Args:
        facts: of the data set; a folder that was begun with others is refused.
        defaults: fields of every request, which --extra-body overrides.
    """
    backend = parse_backend(flags.backend)
    extra = {**({} if backend is Backend.SPEECH else defaults), **parse_extra_body(flags.extra_body, "")}
    base_url = parse_base_url(flags.base_url, "", 0)
    # The address is no part of them: a server may come back at another one.
    settled = {"kind": kind, **facts, "model": flags.model, "backend": backend.value, "extra_body": extra}
    writer = OutputWriter(flags.outputs, settled, overwrite=flags.overwrite)
    settings = AskSettings(
        target=Target(base_url=base_url, endpoint=backend.endpoint, headers=parse_headers([], flags.api_key)),
        body=BodyOptions(backend=backend, model=flags.model, extra_body=extra),
        max_concurrency=flags.max_concurrency,
        timeout_s=flags.timeout_s,
    )
    with shown_bar(kind, len(items), is_shown=flags.has_progress) as bar:

        def tell(asked: Asked) -> None:
            bar.advance()
            if asked.output.error:
                bar.say(f"{asked.output.truth.item_id}: failed: {asked.output.error}")

        server = asyncio.run(ask(items, writer, settings, tell))
    if server:
        writer.note({**settled, "server": {"base_url": base_url, **server}})
