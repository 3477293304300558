"""`antiphon eval`: how good what a server says is, by scorers that are named in every report."""

from pathlib import Path
from typing import Annotated

import typer

from antiphon.cli import eval_options as opt
from antiphon.cli.eval_choices import daily_omni, video_mme

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)


@app.callback()
def evaluate() -> None:
    """Score answers: word errors, voice, flow of the sound, multiple choice; compare two runs.

    \b
    Examples:
      antiphon eval seed-tts --dataset ./seedtts --num-items 100 --outputs out/base
      antiphon eval daily-omni --dataset ./Daily-Omni --outputs out/omni --max-concurrency 4
      antiphon eval wer ./recordings --recogniser whisper-base
      antiphon eval compare out/base/seed-tts.json out/new/seed-tts.json
    """


app.command("daily-omni")(daily_omni)
app.command("video-mme")(video_mme)


@app.command("seed-tts")
def seed_tts(
    outputs: opt.Outputs,
    dataset: Annotated[
        Path | None,
        typer.Option(
            help="Folder that holds LOCALE/meta.lst.", show_default="none: score what is there", metavar="DIR"
        ),
    ] = None,
    locale: Annotated[str, typer.Option(help="en or zh.")] = "en",
    num_items: opt.NumItems = None,
    base_url: opt.BaseUrl = "http://127.0.0.1:8099",
    model: opt.Model = "",
    api_key: opt.ApiKey = "",
    backend: opt.Backend = "openai-chat-omni",
    max_concurrency: opt.Concurrency = 1,
    file_ref_audio: Annotated[
        bool, typer.Option("--file-ref-audio", help="Send reference recordings as file: addresses.")
    ] = False,
    output_len: opt.OutputLen = None,
    extra_body: opt.ExtraBody = "{}",
    timeout_s: opt.Timeout = 900.0,
    overwrite: opt.Overwrite = False,
    recogniser: opt.Recogniser = "auto",
    encoder: opt.Encoder = "auto",
    device: opt.Device = "cpu",
    spell_numbers: opt.SpellNumbers = False,
    continuity_threshold_s: opt.Threshold = 0.1,
    seed: opt.Seed = 0,
    report_dir: opt.ReportDir = None,
    plot: opt.Plot = None,
    disable_tqdm: opt.DisableProgress = False,
) -> None:
    """Have texts spoken in reference voices; score words, voice and flow.

    What is answered already is kept, so a run that broke off goes on where it was. Exit code 1 if an item failed or
    could not be scored.

    \b
    Examples:
      antiphon eval seed-tts --dataset ./seedtts --outputs out --num-items 100 --max-concurrency 4
      antiphon eval seed-tts --outputs out --recogniser whisper-base --plot out/seed-tts.svg
    """
    from antiphon.bench.datasets.seed_tts import DEFAULT_OUTPUT_LEN, SeedTtsOptions
    from antiphon.cli.bench_report import check_plot
    from antiphon.cli.eval_ask import AskFlags, ask_server
    from antiphon.cli.eval_parts import SpeechFlags, speech_parts
    from antiphon.cli.eval_report import ReportFlags, finish, score_and_report
    from antiphon.evals.datasets.seed_tts import seed_tts_items
    from antiphon.evals.outputs.folder import read_outputs, read_run
    from antiphon.evals.outputs.selection import outputs_of

    check_plot(plot)
    flags = SpeechFlags(
        recogniser=recogniser,
        encoder=encoder,
        device=device,
        spells_numbers=spell_numbers,
        threshold_s=continuity_threshold_s,
        folder=report_dir or outputs,
    )
    if dataset is None:
        found = read_outputs(outputs)
        parts = speech_parts(found, flags)
    else:
        options = SeedTtsOptions(
            root=dataset,
            locale=locale,
            is_inline=not file_ref_audio,
            output_len_tokens=output_len or DEFAULT_OUTPUT_LEN,
        )
        items = seed_tts_items(options)[:num_items]
        asking = AskFlags(
            base_url=base_url,
            model=model,
            api_key=api_key,
            backend=backend,
            max_concurrency=max_concurrency,
            extra_body=extra_body,
            timeout_s=timeout_s,
            outputs=outputs,
            overwrite=overwrite,
            has_progress=not disable_tqdm,
        )
        flags.check({locale})  # a scorer that is not installed is told before anything is asked
        facts = {"dataset": f"seed-tts {locale}", "output_len_tokens": options.output_len_tokens}
        template = {"enable_thinking": False, "use_tts_template": True}
        ask_server("seed-tts", items, asking, facts, {"chat_template_kwargs": template})
        found = outputs_of(items, read_outputs(outputs))
        parts = speech_parts(found, flags)
    run = read_run(outputs)
    reporting = ReportFlags(folder=report_dir or outputs, plot=plot, seed=seed, has_progress=not disable_tqdm)
    finish(score_and_report("seed-tts", found, parts, reporting, dataset=str(run.get("dataset", "")), run=run))


@app.command()
def wer(
    folder: opt.OutputsArgument,
    recogniser: opt.Recogniser = "auto",
    device: opt.Device = "cpu",
    spell_numbers: opt.SpellNumbers = False,
    seed: opt.Seed = 0,
    report_dir: opt.ReportDir = None,
    plot: opt.Plot = None,
    disable_tqdm: opt.DisableProgress = False,
) -> None:
    """Word errors of recordings against the words that were to be said.

    FOLDER/outputs.jsonl has a line for each recording: {"id", "wav", "target"}, for Chinese also "language": "zh".

    \b
    Examples:
      antiphon eval wer ./recordings
      antiphon eval wer ./recordings --recogniser recorded
      antiphon eval wer ./recordings --recogniser ~/models/faster-whisper-large-v3 --device cuda
    """
    from antiphon.cli.eval_parts import word_part
    from antiphon.cli.eval_report import ReportFlags, finish, score_and_report
    from antiphon.evals.outputs.folder import read_outputs, read_run

    found = read_outputs(folder)
    reporting = ReportFlags(folder=report_dir or folder, plot=plot, seed=seed, has_progress=not disable_tqdm)
    part = word_part(found, recogniser, device=device, spells_numbers=spell_numbers, folder=reporting.folder)
    finish(score_and_report("wer", found, [part], reporting, run=read_run(folder)))


@app.command()
def sim(
    folder: opt.OutputsArgument,
    encoder: opt.Encoder = "auto",
    seed: opt.Seed = 0,
    report_dir: opt.ReportDir = None,
    plot: opt.Plot = None,
    disable_tqdm: opt.DisableProgress = False,
) -> None:
    """Similarity of recorded voices to reference voices: the cosine of their encodings.

    FOLDER/outputs.jsonl has a line for each recording: {"id", "wav", "reference"}. Every encoder has its own scale.

    \b
    Examples:
      antiphon eval sim ./recordings
    """
    from antiphon.cli.eval_parts import voice_part
    from antiphon.cli.eval_report import ReportFlags, finish, score_and_report
    from antiphon.evals.outputs.folder import read_outputs, read_run

    found = read_outputs(folder)
    reporting = ReportFlags(folder=report_dir or folder, plot=plot, seed=seed, has_progress=not disable_tqdm)
    part = voice_part(encoder, folder=reporting.folder)
    finish(score_and_report("sim", found, [part], reporting, run=read_run(folder)))


@app.command()
def continuity(
    folder: opt.OutputsArgument,
    continuity_threshold_s: opt.Threshold = 0.1,
    seed: opt.Seed = 0,
    report_dir: opt.ReportDir = None,
    plot: opt.Plot = None,
    disable_tqdm: opt.DisableProgress = False,
) -> None:
    """Does the sound flow? Underruns and stalls, clicks, dropouts, clipping, silence.

    FOLDER/outputs.jsonl has a line for each recording: {"id", "wav"}, and "arrivals": [[seconds, samples], …] if it is
    known when each piece came; without them only the samples are looked at.

    \b
    Examples:
      antiphon eval continuity out/base
      antiphon eval continuity out/base --continuity-threshold-s 0.05 --plot flow.png
    """
    from antiphon.cli.eval_report import ReportFlags, finish, score_and_report
    from antiphon.evals.outputs.folder import read_outputs, read_run
    from antiphon.evals.scoring.flow import FlowPart

    found = read_outputs(folder)
    reporting = ReportFlags(folder=report_dir or folder, plot=plot, seed=seed, has_progress=not disable_tqdm)
    part = FlowPart(continuity_threshold_s)
    finish(score_and_report("continuity", found, [part], reporting, run=read_run(folder)))


@app.command()
def compare(
    first: Annotated[Path, typer.Argument(help="Report of an evaluation.", metavar="A.json")],
    second: Annotated[Path, typer.Argument(help="The one that is judged.", metavar="B.json")],
    confidence: Annotated[float, typer.Option(help="Of the intervals.", min=0.5, max=0.9999)] = 0.95,
    fail_on_worse: Annotated[
        bool, typer.Option("--fail-on-worse", help="Exit code 1 if any figure is shown to be worse.")
    ] = False,
    seed: opt.Seed = 0,
    json_path: Annotated[Path | None, typer.Option("--json", help="Write the comparison here.", metavar="FILE")] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw it here: item by item, first against second.", metavar="FILE")
    ] = None,
) -> None:
    """Is the second run better, worse, or is neither shown? Items of both runs are compared one by one.

    Reports of different data sets or scorers are refused with exit code 2.

    \b
    Examples:
      antiphon eval compare out/base/seed-tts.json out/new/seed-tts.json
      antiphon eval compare base.json new.json --confidence 0.99 --fail-on-worse --plot new.png
    """
    from antiphon.cli.bench_report import check_plot
    from antiphon.evals.compare.comparison import Verdict
    from antiphon.evals.compare.comparison import compare as compare_reports
    from antiphon.evals.compare.reading import read_report
    from antiphon.evals.compare.rendering import comparison_document, render_comparison
    from antiphon.evals.report.document import render_json, write_text

    check_plot(plot)
    found = compare_reports(read_report(first), read_report(second), confidence=confidence, seed=seed)
    typer.echo(render_comparison(found))
    if json_path is not None:
        write_text(json_path, render_json(comparison_document(found)))
    if plot is not None:
        from antiphon.evals.compare.plot import draw_comparison

        draw_comparison(found, plot)
    if fail_on_worse and any(item.verdict is Verdict.WORSE for item in found.differences):
        raise typer.Exit(1)
