"""Options that several `antiphon eval` commands share."""

from pathlib import Path
from typing import Annotated

import typer

Outputs = Annotated[
    Path, typer.Option(help="Folder that gets the outputs, or holds earlier ones (outputs.jsonl).", metavar="DIR")
]
OutputsArgument = Annotated[
    Path, typer.Argument(help="Folder with outputs.jsonl and recordings.", metavar="FOLDER", show_default=False)
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Forget the outputs that the folder holds.")]
NumItems = Annotated[int | None, typer.Option(help="Only the first so many items.", min=1, metavar="N")]
BaseUrl = Annotated[str, typer.Option(help="Of the server.", metavar="URL")]
Model = Annotated[str, typer.Option(help="Name in requests.", show_default="the first that the server lists")]
ApiKey = Annotated[str, typer.Option(help="Bearer key.", envvar="OPENAI_API_KEY", show_default=False, metavar="KEY")]
Backend = Annotated[str, typer.Option(help="openai-chat-omni, openai-chat or openai-audio-speech.", metavar="NAME")]
Concurrency = Annotated[int, typer.Option(help="Requests under way at once.", min=1)]
OutputLen = Annotated[int | None, typer.Option(help="Most tokens of an answer.", min=1, show_default="the data set's")]
ExtraBody = Annotated[str, typer.Option(help="JSON object merged into every request.", metavar="JSON")]
Timeout = Annotated[float, typer.Option(help="Seconds for one request.", min=1)]
Recogniser = Annotated[
    str,
    typer.Option(
        help="whisper-tiny.en, whisper-base, a Whisper folder of CTranslate2, recorded (transcripts in outputs.jsonl), "
        "none; auto: the smallest that knows the language.",
        metavar="NAME|DIR",
    ),
]
Encoder = Annotated[str, typer.Option(help="d-vector, none; auto: d-vector.", metavar="NAME")]
Device = Annotated[str, typer.Option(help="Of the recogniser: cpu or cuda.")]
SpellNumbers = Annotated[bool, typer.Option("--spell-numbers", help="Count '20' and 'twenty' as the same word.")]
Threshold = Annotated[float, typer.Option(help="Seconds of waiting that a listener does not notice.", min=0)]
Seed = Annotated[int, typer.Option(help="Of the bootstrap.")]
ReportDir = Annotated[
    Path | None, typer.Option(help="Where the report goes.", show_default="the outputs' folder", metavar="DIR")
]
Plot = Annotated[Path | None, typer.Option(help="Draw the report here (.png, .svg, .pdf).", metavar="FILE")]
DisableProgress = Annotated[bool, typer.Option("--disable-tqdm", help="No progress bar.")]
