"""`antiphon bench omni-duplex-eval`: what a model says while it watches, when, and how a judge rates both."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)

Dataset = Annotated[
    str, typer.Option(help="Folder, manifest (JSON, JSONL), Parquet file, or hub id.", metavar="PATH|ID")
]
Split = Annotated[str, typer.Option(help="all, or the name of one.")]
FamilyName = Annotated[
    str, typer.Option("--family", help="all, rtd (real-time description) or pr (proactive reminder).")
]
MediaRoot = Annotated[
    Path | None, typer.Option(help="Where the media of a manifest lie.", show_default="beside it", metavar="DIR")
]
Limit = Annotated[int | None, typer.Option(help="At most so many samples of each split.", min=1)]
Ids = Annotated[list[str] | None, typer.Option(help="Only these samples; commas or repeated.", metavar="ID[,ID…]")]
ResponseRoot = Annotated[Path, typer.Option(help="Where responses are.", metavar="DIR")]
ScoreRoot = Annotated[Path, typer.Option(help="Where scores are.", metavar="DIR")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Do what is done already again.")]
DisableProgress = Annotated[bool, typer.Option("--disable-tqdm", help="No progress bar.")]


@app.callback()
def omni_duplex_eval(
    omni: Annotated[bool, typer.Option("--omni", help="Accepted, without effect: it always is.")] = False,
) -> None:
    """Omni-DuplexEval: show videos to a live session, have a judge score what it said and when.

    \b
    Examples:
      antiphon bench omni-duplex-eval generate --split RTD_OCR --limit 10 --response-root out
      antiphon bench omni-duplex-eval evaluate --split RTD_OCR --response-root out --score-root scores --judge-model M
      antiphon bench omni-duplex-eval summarize --score-root scores
    """


@app.command()
def generate(
    response_root: ResponseRoot,
    dataset: Dataset = "Hothan/Omni-DuplexEval",
    split: Split = "all",
    family: FamilyName = "all",
    media_root: MediaRoot = None,
    limit: Limit = None,
    ids: Ids = None,
    url: Annotated[str, typer.Option(help="Of the Realtime WebSocket.")] = "ws://localhost:8099/v1/realtime?duplex=1",
    model: Annotated[str, typer.Option(help="Name in the session.", show_default="what the server serves")] = "",
    api_key: Annotated[
        str, typer.Option(help="Bearer key.", envvar="OPENAI_API_KEY", show_default=False, metavar="KEY")
    ] = "",
    ref_audio: Annotated[
        Path | None, typer.Option(help="WAV of the model's voice.", show_default="the server's", metavar="FILE")
    ] = None,
    fps: Annotated[float, typer.Option(help="Frames a second, at most 1.")] = 1.0,
    mix: Annotated[str, typer.Option(help="question: it is mixed into the video's sound.")] = "question",
    pace: Annotated[str, typer.Option(help="realtime, or as-fast-as-possible (then times mean nothing).")] = "realtime",
    clock: Annotated[str, typer.Option(help="media: seconds of the video.")] = "media",
    concurrency: Annotated[int, typer.Option(help="Sessions at once.", min=1)] = 1,
    overwrite: Overwrite = False,
    disable_tqdm: DisableProgress = False,
) -> None:
    """Play every video into a live session and write down what is said, with times.

    Samples that have a response are skipped, so a run that broke off goes on where it was. Exit code 1 if any failed.
    """
    import asyncio

    from antiphon.bench.duplex_eval.dataset_reading import load_samples
    from antiphon.bench.duplex_eval.generate import MEDIA_CLOCK, MIX, Generated, GenerateSettings
    from antiphon.bench.duplex_eval.generate import generate as generate_responses
    from antiphon.bench.duplex_eval.session_settings import SessionSettings, parse_pace, read_reference, session_url
    from antiphon.bench.duplex_eval.splits import chosen_splits
    from antiphon.cli.bench_duplex_progress import Outcome, shown_outcomes
    from antiphon.core.errors import ConfigError

    if mix != MIX:
        raise ConfigError(f"--mix is {mix!r}; known: {MIX}")
    if clock != MEDIA_CLOCK:
        raise ConfigError(f"--clock is {clock!r}; known: {MEDIA_CLOCK}")
    session_url(url, model)  # refused before the data set is fetched
    session = SessionSettings(
        url=url,
        model=model,
        reference=read_reference(ref_audio),
        pace=parse_pace(pace),
        headers={"Authorization": f"Bearer {api_key}"} if api_key else {},
    )
    settings = GenerateSettings(
        response_root=response_root, session=session, fps=fps, concurrency=concurrency, overwrite=overwrite
    )
    samples = load_samples(
        dataset, chosen_splits(split, family), media_root=media_root, limit=limit, ids=_listed(ids)
    )  # fmt: skip

    def outcome(found: Generated) -> Outcome:
        said = "" if found.record is None else f"{found.num_sentences} sentences"
        return Outcome(f"{found.sample.split}/{found.sample.sample_id}", said, found.error, found.was_skipped)

    with shown_outcomes("generate", len(samples), is_shown=not disable_tqdm) as tell:
        found = asyncio.run(generate_responses(samples, settings, lambda item: tell(outcome(item))))
    _finish(sum(bool(item.error) for item in found), sum(item.was_skipped for item in found), len(found))


@app.command()
def evaluate(
    response_root: ResponseRoot,
    score_root: ScoreRoot,
    judge_model: Annotated[str, typer.Option(help="Name of the model that judges.")],
    dataset: Dataset = "Hothan/Omni-DuplexEval",
    split: Split = "all",
    family: FamilyName = "all",
    media_root: MediaRoot = None,
    limit: Limit = None,
    ids: Ids = None,
    judge_base_url: Annotated[str, typer.Option(help="OpenAI-compatible.", metavar="URL")] = "http://127.0.0.1:8000",
    judge_api_key: Annotated[str, typer.Option(help="Bearer key.", metavar="KEY")] = "EMPTY",
    judge_video_mode: Annotated[
        str,
        typer.Option(help="How it sees whole videos: video_url (it reads this machine's files) or frame-sample."),
    ] = "video_url",
    judge_fps: Annotated[float, typer.Option(help="Frames a second of a sentence's stretch.")] = 2.0,
    window_size: Annotated[float, typer.Option(help="Seconds after it is due in which a reminder counts.")] = 10.0,
    allow_invalid_clock: Annotated[
        bool, typer.Option("--allow-invalid-clock", help="Score responses that were not paced in real time.")
    ] = False,
    eval_workers: Annotated[int, typer.Option(help="Samples judged at once.", min=1)] = 1,
    overwrite: Overwrite = False,
    disable_tqdm: DisableProgress = False,
) -> None:
    """Have a judge score the responses: content and timing of descriptions, success of reminders.

    Responses whose clock is not the media's are refused. Exit code 1 if any sample could not be judged.
    """
    import asyncio

    from antiphon.bench.duplex_eval.dataset_reading import load_samples
    from antiphon.bench.duplex_eval.evaluate import Evaluated, EvaluateSettings
    from antiphon.bench.duplex_eval.evaluate import evaluate as evaluate_responses
    from antiphon.bench.duplex_eval.judge_client import JudgeSettings, parse_video_mode
    from antiphon.bench.duplex_eval.splits import chosen_splits
    from antiphon.cli.bench_duplex_progress import Outcome, shown_outcomes

    judge = JudgeSettings(
        base_url=judge_base_url,
        model=judge_model,
        api_key=judge_api_key,
        video_mode=parse_video_mode(judge_video_mode),
        fps=judge_fps,
    )
    settings = EvaluateSettings(
        response_root=response_root,
        score_root=score_root,
        judge=judge,
        window_s=window_size,
        allows_invalid_clock=allow_invalid_clock,
        num_workers=eval_workers,
        overwrite=overwrite,
    )
    samples = load_samples(
        dataset, chosen_splits(split, family), media_root=media_root, limit=limit, ids=_listed(ids)
    )  # fmt: skip

    def outcome(found: Evaluated) -> Outcome:
        return Outcome(f"{found.sample.split}/{found.sample.sample_id}", "scored", found.error, found.was_skipped)

    with shown_outcomes("evaluate", len(samples), is_shown=not disable_tqdm) as tell:
        found = asyncio.run(evaluate_responses(samples, settings, lambda item: tell(outcome(item))))
    _finish(sum(bool(item.error) for item in found), sum(item.was_skipped for item in found), len(found))


@app.command()
def summarize(
    score_root: ScoreRoot,
    json_path: Annotated[Path | None, typer.Option("--json", help="Write the summary here.", metavar="FILE")] = None,
) -> None:
    """Means of all scores, by family and task, with 95 % intervals."""
    from antiphon.bench.duplex_eval.artifacts import write_json
    from antiphon.bench.duplex_eval.summarize import read_scores, render_summary
    from antiphon.bench.duplex_eval.summarize import summarize as summarize_scores

    document = summarize_scores(read_scores(score_root))
    typer.echo(render_summary(document))
    if json_path is not None:
        write_json(json_path, document)


def _listed(ids: list[str] | None) -> list[str]:
    return [word.strip() for text in ids or [] for word in text.split(",") if word.strip()]


def _finish(num_failed: int, num_skipped: int, num_all: int) -> None:
    typer.echo(f"{num_all - num_failed - num_skipped} done, {num_skipped} done before, {num_failed} failed")
    if num_failed:
        raise typer.Exit(1)
