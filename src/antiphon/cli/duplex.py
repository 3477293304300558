"""`antiphon duplex`: play a file to a model that listens and speaks at once, and keep what it says."""

from pathlib import Path
from typing import Annotated

import typer


def duplex(
    source: Annotated[Path, typer.Argument(help="A sound file, or a clip with sound.", metavar="WAV_OR_VIDEO")],
    url: Annotated[str, typer.Option(help="Of the server.")] = "ws://127.0.0.1:8099",
    out: Annotated[Path, typer.Option("--out", "--output-dir", help="Folder for what comes back.")] = Path(
        "duplex-out"
    ),
    model: Annotated[str | None, typer.Option(help="Name in the request.", show_default="the server's own")] = None,
    api_key: Annotated[
        str, typer.Option(help="Of the server.", envvar="ANTIPHON_API_KEY", show_default=False, metavar="KEY")
    ] = "",
    instructions: Annotated[str | None, typer.Option(help="System prompt.", show_default="the server's")] = None,
    ref_audio: Annotated[
        Path | None, typer.Option(help="Recording of the voice to speak in.", show_default="the server's")
    ] = None,
    text_only: Annotated[bool, typer.Option("--text-only", help="Ask for no speech.")] = False,
    temperature: Annotated[float | None, typer.Option(help="Of the decisions and the text.")] = None,
    chunk_ms: Annotated[int, typer.Option(help="Sound of one append.", min=10, max=1000)] = 200,
    realtime_pacing: Annotated[
        bool, typer.Option("--realtime-pacing/--no-realtime-pacing", help="As a microphone would, or at once.")
    ] = True,
    frame_max_side: Annotated[int, typer.Option(help="Pixels of a clip's pictures.", min=28, max=4096)] = 640,
    stack_frames: Annotated[
        int, typer.Option(help="Pictures of a second; more than one are also sent in one.", min=1, max=8)
    ] = 1,
    max_trailing_silence_ms: Annotated[
        int, typer.Option(help="Silence sent while the model does not answer.", min=0)
    ] = 5000,
    timeout_s: Annotated[float, typer.Option(help="For the answer.", min=0.1)] = 60.0,
    barge_in_at: Annotated[
        float | None, typer.Option(help="Interrupt once so many seconds of the answer were heard.", min=0)
    ] = None,
    barge_in_with: Annotated[
        Path | None, typer.Option(help="Sound file: what is said then.", show_default="nothing")
    ] = None,
    require_audio: Annotated[bool, typer.Option("--require-audio", help="Fail if nothing was spoken.")] = False,
) -> None:
    """Stream a file to /v1/realtime and keep the answer: output.wav, events.jsonl, result.json, audio_chunks/.

    Sound is played at its own speed on a virtual loudspeaker, and the server is told what was heard. Exit code 1 if
    an error came, the answer took too long, or --require-audio found none.

    \b
    Examples:
      antiphon duplex question.wav
      antiphon duplex clip.mp4 --stack-frames 4 --out run1
      antiphon duplex question.wav --url wss://example.org --api-key secret --no-realtime-pacing
      antiphon duplex question.wav --barge-in-at 1.5 --barge-in-with stop.wav
    """
    from antiphon.cli.duplex_run import DuplexJob, run_job
    from antiphon.core.errors import ConfigError

    if barge_in_with is not None and barge_in_at is None:
        raise ConfigError("--barge-in-with needs --barge-in-at")
    if barge_in_at is not None and not realtime_pacing:
        raise ConfigError("--barge-in-at needs real-time pacing: without it nothing is heard at a moment")
    job = DuplexJob(
        source=source,
        url=url,
        folder=out,
        model=model,
        api_key=api_key or None,
        instructions=instructions,
        reference=ref_audio,
        is_text_only=text_only,
        temperature=temperature,
        chunk_ms=chunk_ms,
        is_realtime=realtime_pacing,
        frame_max_side=frame_max_side,
        num_stacked=stack_frames,
        max_trailing_silence_ms=max_trailing_silence_ms,
        timeout_s=timeout_s,
        barge_in_at_s=barge_in_at,
        interruption=barge_in_with,
        requires_audio=require_audio,
    )
    if not run_job(job):
        raise typer.Exit(1)
