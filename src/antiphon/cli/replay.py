"""`antiphon replay`: run a recorded session against a server again, and show what differs."""

from pathlib import Path
from typing import Annotated

import typer


def replay(
    trace: Annotated[Path, typer.Argument(help="A file that 'antiphon serve --record' has kept.", metavar="TRACE")],
    url: Annotated[str, typer.Option(help="Of the server.")] = "ws://127.0.0.1:8099",
    api_key: Annotated[
        str, typer.Option(help="Of the server.", envvar="ANTIPHON_API_KEY", show_default=False, metavar="KEY")
    ] = "",
    speed: Annotated[
        float, typer.Option(help="2 is twice as fast as recorded; 0: as fast as the server answers.", min=0)
    ] = 1.0,
    audio: Annotated[str, typer.Option(help="How sound is compared: exact, length or ignore.")] = "exact",
    patience_s: Annotated[float, typer.Option(help="How long to wait for an event that does not come.", min=0)] = 5.0,
    max_shown: Annotated[int, typer.Option(help="Most differences in the table.", min=1)] = 40,
) -> None:
    """Send the client's side of a trace and compare what the server answers: exit code 1 if anything differs.

    Ids and times are no differences, and neither is into how many pieces sound and words are cut.

    \b
    Examples:
      antiphon replay traces/sess_1f0c.jsonl
      antiphon replay traces/sess_1f0c.jsonl --url wss://example.org --speed 0 --audio length
    """
    import asyncio

    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from antiphon.client.replay.compare import SoundCheck
    from antiphon.client.replay.run import ReplayOptions
    from antiphon.client.replay.run import replay as run_replay
    from antiphon.client.replay.trace_file import read_trace
    from antiphon.core.errors import ConfigError

    checks = [check.value for check in SoundCheck]
    if audio not in checks:
        raise ConfigError(f"--audio is {audio!r}; known: {', '.join(checks)}")
    recorded = read_trace(trace)
    options = ReplayOptions(
        url=url, api_key=api_key or None, speed=speed, patience_s=patience_s, sound=SoundCheck(audio)
    )
    notices = Console(stderr=True)
    if recorded.cut_off is not None:
        notices.print(escape(f"{trace} is not complete: {recorded.cut_off}"), style="yellow")
    with notices.status(f"replaying {recorded.duration_s:.1f} s"):
        result = asyncio.run(run_replay(recorded, options))
    console = Console()
    if result.differences:
        table = Table("lane", "where", "recorded", "now", title=f"{len(result.differences)} differences")
        for difference in result.differences[:max_shown]:
            table.add_row(*map(escape, (difference.lane, difference.where, difference.recorded, difference.live)))
        console.print(table)
    counts = f"{result.num_sent} frames sent, {result.num_received} events came, {result.num_recorded} were recorded"
    console.print(f"{counts}: {'they differ' if result.differences else 'nothing differs'}", highlight=False)
    if result.differences:
        raise typer.Exit(1)
