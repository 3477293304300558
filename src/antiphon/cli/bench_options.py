"""The options of `antiphon bench serve`, as types: names, help and value names."""

from pathlib import Path
from typing import Annotated

import typer

Backend = Annotated[
    str,
    typer.Option(
        help="openai-chat-omni, openai-chat (OpenAI's fields only), openai-audio-speech or openai-realtime-duplex."
    ),
]
BaseUrl = Annotated[str, typer.Option(help="Instead of --host and --port.", metavar="URL")]
Host = Annotated[str, typer.Option(help="Of the server.")]
Port = Annotated[int, typer.Option(help="Of the server.", min=1, max=65535)]
Endpoint = Annotated[
    str, typer.Option(help="Path of the requests.", show_default="that of the backend", metavar="PATH")
]
Model = Annotated[str, typer.Option(help="Name in the requests.", show_default="the first the server lists")]
ServedModelName = Annotated[str, typer.Option(help="Name in the requests, if --model is a path.")]
Header = Annotated[list[str] | None, typer.Option(help="Sent with every request.", metavar="NAME=VALUE")]
ApiKey = Annotated[str, typer.Option(help="Bearer key.", envvar="OPENAI_API_KEY", show_default=False, metavar="KEY")]
ReadyTimeout = Annotated[float, typer.Option(help="How long to wait for the server to be ready; 0: not.", min=0)]
RequestTimeout = Annotated[
    float, typer.Option(help="Most seconds of one request; 0 or less: six hours. A timed-out request has failed.")
]

DatasetName = Annotated[
    str,
    typer.Option(help="random, random-mm, seed-tts, daily-omni or jsonl; for live sessions random, wav or seed-tts."),
]
DatasetPath = Annotated[Path | None, typer.Option(help="Folder or file of the data set.", metavar="PATH")]
NumPrompts = Annotated[str, typer.Option(help="Requests of a level, or a comma list, one for each.", metavar="N[,N…]")]
OutputLen = Annotated[
    int | None, typer.Option(help="Most text tokens of an answer.", min=1, show_default="that of the data set")
]
Tokenizer = Annotated[
    Path | None, typer.Option(help="tokenizer.json, to count tokens for servers that tell none.", metavar="PATH")
]
NoOversample = Annotated[bool, typer.Option("--no-oversample", help="Do not repeat the rows of a short data set.")]
DisableShuffle = Annotated[bool, typer.Option("--disable-shuffle", help="Keep the order of the data set.")]
RandomInputLen = Annotated[int, typer.Option(help="Tokens of a random prompt.")]
RandomOutputLen = Annotated[int, typer.Option(help="Most text tokens of its answer.")]
RandomPrefixLen = Annotated[int, typer.Option(help="Tokens that all random prompts begin with.")]
RandomRangeRatio = Annotated[float, typer.Option(help="Spread r: lengths from (1-r) to (1+r) times the above.")]
MmItems = Annotated[int, typer.Option(help="Media of a request.")]
MmItemsRatio = Annotated[float, typer.Option(help="Spread of their number.")]
MmLimits = Annotated[str, typer.Option(help="Most items of a kind.", metavar="JSON")]
MmBuckets = Annotated[
    str,
    typer.Option(
        help="Sizes with shares: (height, width, frames), or (0, seconds, channels) for audio.",
        metavar="{(H, W, T): P}",
    ),
]
SeedTtsLocale = Annotated[str, typer.Option(help="en or zh.")]
SeedTtsRoot = Annotated[Path | None, typer.Option(help="Instead of --dataset-path.", metavar="DIR")]
SeedTtsFile = Annotated[
    bool, typer.Option("--seed-tts-file-ref-audio", help="Send recordings as file: addresses, not inline.")
]
SeedTtsSystem = Annotated[str, typer.Option(help="System prompt.", show_default=False)]
DailyQa = Annotated[Path | None, typer.Option(help="Question file.", show_default="DIR/qa.json", metavar="FILE")]
DailyVideos = Annotated[Path | None, typer.Option(help="One folder per id.", show_default="DIR/Videos", metavar="DIR")]
DailyInline = Annotated[bool, typer.Option("--daily-omni-inline-local-video", help="Send media inline, not as file:.")]
DailyInput = Annotated[str, typer.Option(help="all, visual or audio.")]
DailyPack = Annotated[str, typer.Option(help="qwen, or minicpm-interleave (inline).")]

DuplexSession = Annotated[float, typer.Option(help="Live sessions: seconds of each.")]
DuplexTalk = Annotated[float, typer.Option(help="Live sessions, random: seconds of a phrase.")]
DuplexPause = Annotated[float, typer.Option(help="Live sessions, random: seconds between phrases.")]
DuplexChunk = Annotated[int, typer.Option(help="Live sessions: milliseconds of one append.", min=10, max=1000)]
DuplexStagger = Annotated[
    float, typer.Option(help="Live sessions: their beginnings are spread over so many seconds; 0: all at once.", min=0)
]

MaxConcurrency = Annotated[
    str,
    typer.Option(help="Most requests at once; a comma list measures one level after another.", metavar="N[,N…]"),
]
RequestRate = Annotated[float, typer.Option(help="Requests per second that arrive; inf: all at once.")]
Burstiness = Annotated[float, typer.Option(help="1 is a Poisson process; less is burstier, more evener.")]
NumWarmups = Annotated[int, typer.Option(help="Requests before the measurement.", min=0)]
Seed = Annotated[int, typer.Option(help="Of prompts, order and arrivals.", min=0)]

Modalities = Annotated[str, typer.Option(help="text, or text,audio.", show_default="what the server does unasked")]
ExtraBody = Annotated[str, typer.Option(help="Merged at the root of every request.", metavar="JSON")]
IgnoreEos = Annotated[bool, typer.Option("--ignore-eos", help="Ask for answers of full length.")]
SamplingFloat = Annotated[float | None, typer.Option(help="Of the text.", show_default=False)]
SamplingInt = Annotated[int | None, typer.Option(help="Of the text.", show_default=False)]

PercentileMetrics = Annotated[str, typer.Option(help="What is printed and saved.", metavar="NAME[,NAME…]")]
MetricPercentiles = Annotated[str, typer.Option(help="Beside mean and median.", metavar="P[,P…]")]
Goodput = Annotated[
    list[str] | None, typer.Option(help="Limit of a good request, such as ttft:200.", metavar="NAME:MS")
]
ContinuityThreshold = Annotated[
    float,
    typer.Option(
        help="Underrun in seconds that a listener does not notice.",
        envvar="VLLM_OMNI_BENCH_AUDIO_CONTINUITY_THRESHOLD_S",
        min=0,
    ),
]
PrintStage = Annotated[bool, typer.Option("--print-stage", help="Print what the server tells of its stages.")]
SaveResult = Annotated[bool, typer.Option("--save-result", help="Write a JSON file.")]
SaveDetailed = Annotated[bool, typer.Option("--save-detailed", help="With every request in it.")]
AppendResult = Annotated[bool, typer.Option("--append-result", help="Add a line to the file.")]
ResultDir = Annotated[Path, typer.Option(help="Where the file goes.", metavar="DIR")]
ResultFilename = Annotated[str, typer.Option(help="Its name.", show_default="made of label, rate, model and date")]
Metadata = Annotated[list[str] | None, typer.Option(help="Kept in the file.", metavar="KEY=VALUE")]
Label = Annotated[str, typer.Option(help="Name of the run.", show_default="the backend")]
Plot = Annotated[
    Path | None, typer.Option(help="Picture of latencies and throughput (.png, .svg, .pdf).", metavar="FILE")
]
DisableTqdm = Annotated[bool, typer.Option("--disable-tqdm", help="No progress bar.")]
Omni = Annotated[bool, typer.Option("--omni", help="Accepted, without effect: it always is.")]
TrustRemoteCode = Annotated[bool, typer.Option("--trust-remote-code", help="Accepted, without effect.")]
