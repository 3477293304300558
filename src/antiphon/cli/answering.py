"""Shows one answer while it is made: text on stdout as it comes, speech into a WAV, everything else on stderr."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from antiphon.audio.wav import WavWriter
from antiphon.core.errors import ConfigError
from antiphon.core.outputs import FinishReason
from antiphon.pipeline.events import AudioChunk, ChatEvent, Finished, TextDelta

CODE_S = 0.04


class CodeProgress:
    """A line on stderr that counts seconds of speech while the Talker draws; nothing if stderr is no terminal."""

    def __init__(self, *, is_shown: bool) -> None:
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._is_shown = is_shown and sys.stderr.isatty()
        self._task = self._progress.add_task("speech")
        self._is_started = False
        self.has_closed_line = False  # the text's line on stdout was ended to make room

    def report(self, num_codes: int) -> None:
        if not self._is_shown:
            return
        if not self._is_started:
            typer.echo()
            self.has_closed_line = True
            self._progress.start()
            self._is_started = True
        self._progress.update(self._task, description=f"speech: {num_codes * CODE_S:.1f} s drawn")

    def stop(self) -> None:
        if self._is_started:
            self._progress.stop()


def show_answer(events: Iterator[ChatEvent], output: Path, progress: CodeProgress) -> Finished:
    """Print and write one answer; returns its last event. No file is left behind if it fails.

    Raises:
        ConfigError: the WAV cannot be written.
    """
    try:
        with ExitStack() as stack:
            stack.callback(progress.stop)
            return _show(events, output, progress, stack)
    except OSError as error:
        raise ConfigError(f"{output}: cannot be written ({error.strerror or error})") from None


def _show(events: Iterator[ChatEvent], output: Path, progress: CodeProgress, stack: ExitStack) -> Finished:
    writer: WavWriter | None = None
    for event in events:
        if isinstance(event, TextDelta):
            typer.echo(event.text, nl=False)
        elif isinstance(event, AudioChunk):
            if writer is None:
                writer = stack.enter_context(WavWriter(output, event.sample_rate_hz))
            writer.write(event.samples)
        else:
            progress.stop()
            if not progress.has_closed_line:
                typer.echo()
            return event
    raise AssertionError("a generation ended without its last event")


def summarise(finished: Finished, output: Path | None) -> None:
    """Say on stderr where the speech is, how long, and what was cut off. *output* None: no speech was asked for."""
    if finished.finish_reason is FinishReason.LENGTH:
        typer.echo(f"the text was cut off after {len(finished.token_ids)} tokens (--max-tokens)", err=True)
    if output is None:
        return
    metrics = finished.metrics
    if metrics.rtf is None:
        typer.echo("the answer has nothing to speak; no WAV was written", err=True)
        return
    cut = " (cut off by a limit)" if finished.speech_finish_reason is FinishReason.LENGTH else ""
    typer.echo(
        f"{output}: {metrics.audio_duration_s:.2f} s of speech{cut}, {metrics.num_codec_frames} codec frames, "
        f"RTF {metrics.rtf:.2f}",
        err=True,
    )
