"""`antiphon eval daily-omni` and `video-mme`: questions with lettered answers."""

from pathlib import Path
from typing import Annotated

import typer

from antiphon.cli import eval_options as opt

Dataset = Annotated[
    Path | None,
    typer.Option(help="The data set's folder.", show_default="none: score what is there", metavar="DIR"),
]
InlineVideo = Annotated[
    bool, typer.Option("--inline-local-video", help="Send media inside requests, not as file: addresses.")
]


def daily_omni(
    ctx: typer.Context,
    outputs: opt.Outputs,
    dataset: Dataset = None,
    qa_json: Annotated[
        Path | None, typer.Option(help="Question file.", show_default="DATASET/qa.json", metavar="FILE")
    ] = None,
    video_dir: Annotated[
        Path | None, typer.Option(help="A folder for each video.", show_default="DATASET/Videos", metavar="DIR")
    ] = None,
    inline_local_video: InlineVideo = False,
    input_mode: Annotated[str, typer.Option(help="all, visual or audio.")] = "all",
    pack_mode: Annotated[str, typer.Option(help="minicpm-interleave or qwen.")] = "minicpm-interleave",
    extract_mode: Annotated[str, typer.Option(help="strict or relaxed (small letters too).")] = "strict",
    num_items: opt.NumItems = None,
    base_url: opt.BaseUrl = "http://127.0.0.1:8099",
    model: opt.Model = "",
    api_key: opt.ApiKey = "",
    backend: opt.Backend = "openai-chat-omni",
    max_concurrency: opt.Concurrency = 1,
    output_len: opt.OutputLen = None,
    extra_body: opt.ExtraBody = "{}",
    timeout_s: opt.Timeout = 900.0,
    overwrite: opt.Overwrite = False,
    seed: opt.Seed = 0,
    report_dir: opt.ReportDir = None,
    plot: opt.Plot = None,
    disable_tqdm: opt.DisableProgress = False,
) -> None:
    """Daily-Omni: ask about short videos with sound; accuracy by task, category and duration.

    Answers are text only, unless --extra-body asks for speech. An answer without a letter is wrong.

    \b
    Examples:
      antiphon eval daily-omni --dataset ./Daily-Omni --outputs out --max-concurrency 4
      antiphon eval daily-omni --outputs out --extract-mode relaxed
    """
    from functools import partial

    from antiphon.bench.datasets.daily_omni import DEFAULT_OUTPUT_LEN, DailyOmniOptions
    from antiphon.cli.eval_choice_run import ChoiceSet, run_choices
    from antiphon.evals.datasets.daily_omni import daily_omni_items
    from antiphon.evals.text.letters import check_extraction, daily_omni_letter

    check_extraction(extract_mode)
    is_asked = dataset is not None or qa_json is not None
    folder = dataset or Path()
    options = DailyOmniOptions(
        question_file=qa_json or folder / "qa.json",
        video_folder=video_dir or folder / "Videos",
        is_inline=inline_local_video,
        input_mode=input_mode,
        pack_mode=pack_mode,
        output_len_tokens=output_len or DEFAULT_OUTPUT_LEN,
    )
    facts: dict[str, object] = {
        "dataset": "daily-omni",
        "pack_mode": pack_mode,
        "input_mode": input_mode,
        "output_len_tokens": options.output_len_tokens,
    }
    run_choices(
        ctx,
        ChoiceSet(
            kind="daily-omni",
            facts=facts,
            read_items=partial(daily_omni_items, options) if is_asked else None,
            rules=f"daily-omni-{extract_mode}",
            extract=partial(daily_omni_letter, extraction=extract_mode),
        ),
    )


def video_mme(
    ctx: typer.Context,
    outputs: opt.Outputs,
    dataset: Dataset = None,
    table: Annotated[
        Path | None,
        typer.Option(help="Questions, .parquet or .jsonl.", show_default="the one in DATASET", metavar="FILE"),
    ] = None,
    video_dir: Annotated[
        Path | None, typer.Option(help="Of VIDEOID.mp4.", show_default="DATASET/data", metavar="DIR")
    ] = None,
    subtitle_dir: Annotated[
        Path | None, typer.Option(help="Of VIDEOID.srt.", show_default="DATASET/subtitle", metavar="DIR")
    ] = None,
    use_subtitle: Annotated[bool, typer.Option("--use-subtitle", help="Put subtitles before questions.")] = False,
    duration: Annotated[str, typer.Option(help="all, short, medium or long.")] = "all",
    pack_mode: Annotated[str, typer.Option(help="minicpm-frames, minicpm-interleave or video_url.")] = "minicpm-frames",
    max_frames: Annotated[int | None, typer.Option(help="Of a video.", min=1, show_default="96, or 64 pairs")] = None,
    inline_local_video: InlineVideo = False,
    num_items: opt.NumItems = None,
    base_url: opt.BaseUrl = "http://127.0.0.1:8099",
    model: opt.Model = "",
    api_key: opt.ApiKey = "",
    backend: opt.Backend = "openai-chat-omni",
    max_concurrency: opt.Concurrency = 1,
    output_len: opt.OutputLen = None,
    extra_body: opt.ExtraBody = "{}",
    timeout_s: opt.Timeout = 900.0,
    overwrite: opt.Overwrite = False,
    seed: opt.Seed = 0,
    report_dir: opt.ReportDir = None,
    plot: opt.Plot = None,
    disable_tqdm: opt.DisableProgress = False,
) -> None:
    """Video-MME: ask about videos of any length; accuracy by duration, domain, category and task.

    Answers are text only, unless --extra-body asks for speech. An answer without a letter is wrong.

    \b
    Examples:
      antiphon eval video-mme --dataset ./Video-MME --duration short --outputs out --max-concurrency 4
      antiphon eval video-mme --dataset ./Video-MME --use-subtitle --pack-mode minicpm-interleave --outputs out
    """
    from functools import partial

    from antiphon.cli.eval_choice_run import ChoiceSet, find_table, run_choices
    from antiphon.evals.datasets.video_mme import DEFAULT_OUTPUT_LEN, VideoMmeOptions, video_mme_items
    from antiphon.evals.text.letters import video_mme_letter

    is_asked = dataset is not None or table is not None
    folder = dataset or Path()
    options = VideoMmeOptions(
        table=table or (find_table(folder) if is_asked else Path()),
        video_folder=video_dir or folder / "data",
        subtitle_folder=(subtitle_dir or folder / "subtitle") if use_subtitle else None,
        pack_mode=pack_mode,
        max_frames=max_frames,
        duration=duration,
        is_inline=inline_local_video,
        output_len_tokens=output_len or DEFAULT_OUTPUT_LEN,
    )
    facts: dict[str, object] = {
        "dataset": "video-mme",
        "pack_mode": pack_mode,
        "max_frames": max_frames,
        "has_subtitles": use_subtitle,
        "output_len_tokens": options.output_len_tokens,
    }
    run_choices(
        ctx,
        ChoiceSet(
            kind="video-mme",
            facts=facts,
            read_items=partial(video_mme_items, options) if is_asked else None,
            rules="video-mme",
            extract=video_mme_letter,
        ),
    )
