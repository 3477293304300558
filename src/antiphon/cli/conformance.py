"""`antiphon conformance`: the protocol cases of the Realtime specification against any server."""

import asyncio
from typing import Annotated

import typer

_MARKS = {"passed": "[green]passed[/]", "failed": "[red]failed[/]", "skipped": "[dim]skipped[/]"}


def conformance(
    url: Annotated[str, typer.Argument(help="Where the server is, such as ws://127.0.0.1:8000.")],
    profile: Annotated[str, typer.Option(help="How the server is set up; see --list-profiles.")] = "default",
    case: Annotated[list[int] | None, typer.Option(help="Run this case only; may be given several times.")] = None,
    key: Annotated[str | None, typer.Option(help="API key.", envvar="ANTIPHON_API_KEY")] = None,
    max_sessions: Annotated[int, typer.Option(help="The server's limit of sessions.")] = 4,
    first_message_s: Annotated[float, typer.Option(help="The server's wait for the first frame.")] = 10.0,
    idle_s: Annotated[float, typer.Option(help="The server's idle limit.")] = 300.0,
    grace_s: Annotated[float, typer.Option(help="The server's grace after a lost socket.")] = 30.0,
    playback_slack_s: Annotated[float, typer.Option(help="The server's wait for acknowledged playback.")] = 5.0,
    queue_wait_s: Annotated[float, typer.Option(help="The server's longest wait in the queue of map.realtime.")] = 25.0,
    patience: Annotated[float, typer.Option(help="Skip cases that must wait longer than this, in seconds.")] = 60.0,
    list_profiles: Annotated[bool, typer.Option("--list-profiles", help="Say what each profile needs.")] = False,
) -> None:
    """Run the protocol cases against a server that runs the scripted engine, and print a table."""
    from rich.console import Console
    from rich.table import Table

    from antiphon.client.conformance.catalogue import CASES
    from antiphon.client.conformance.runner import Outcome, Verdict, run_cases
    from antiphon.client.conformance.target import PROFILES, Target

    console = Console()
    if list_profiles:
        for name, meaning in PROFILES.items():
            console.print(f"[bold]{name}[/]  {meaning}")
        return
    if profile not in PROFILES:
        raise typer.BadParameter(f"unknown profile {profile!r}; known: {', '.join(PROFILES)}")
    target = Target(
        url=url.rstrip("/").replace("http", "ws", 1) if url.startswith("http") else url.rstrip("/"),
        profile=profile,
        key=key,
        max_sessions=max_sessions,
        first_message_s=first_message_s,
        idle_s=idle_s,
        grace_s=grace_s,
        playback_slack_s=playback_slack_s,
        queue_wait_s=queue_wait_s,
        patience_s=patience,
    )
    chosen = [entry for entry in CASES if not case or entry.number in case]

    async def run() -> list[Outcome]:
        outcomes = []
        with console.status("") as status:
            async for outcome in run_cases(chosen, target):
                outcomes.append(outcome)
                status.update(f"{len(outcomes)} of {len(chosen)}: {outcome.case.title}")
        return outcomes

    outcomes = asyncio.run(run())
    table = Table("#", "case", "result", "time", "detail", title=f"Realtime protocol of {url}")
    for outcome in outcomes:
        took = f"{outcome.took_s:.1f} s" if outcome.took_s else ""
        entry = outcome.case
        table.add_row(str(entry.number), entry.title, _MARKS[outcome.verdict.value], took, outcome.detail)
    console.print(table)
    counts = {verdict: sum(outcome.verdict is verdict for outcome in outcomes) for verdict in Verdict}
    console.print(", ".join(f"{count} {verdict.value}" for verdict, count in counts.items()))
    if counts[Verdict.FAILED]:
        raise typer.Exit(1)
