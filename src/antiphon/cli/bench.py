"""`antiphon bench`: load tests of a server, ours or any other that speaks OpenAI's protocol."""

from math import inf
from pathlib import Path

import typer

from antiphon.cli import bench_duplex_eval
from antiphon.cli import bench_options as opt
from antiphon.cli.bench_compare import compare

app = typer.Typer(
    help="Measure a server, or compare measurements.", no_args_is_help=True, pretty_exceptions_enable=False
)


@app.callback()
def bench() -> None:
    """Measure a server under load."""


app.command("compare")(compare)
app.add_typer(bench_duplex_eval.app, name="omni-duplex-eval")


@app.command()
def serve(
    ctx: typer.Context,
    backend: opt.Backend = "openai-chat-omni",
    base_url: opt.BaseUrl = "",
    host: opt.Host = "127.0.0.1",
    port: opt.Port = 8099,
    endpoint: opt.Endpoint = "",
    model: opt.Model = "",
    served_model_name: opt.ServedModelName = "",
    header: opt.Header = None,
    api_key: opt.ApiKey = "",
    ready_check_timeout_sec: opt.ReadyTimeout = 600.0,
    omni_request_timeout_s: opt.RequestTimeout = 900.0,
    dataset_name: opt.DatasetName = "random",
    dataset_path: opt.DatasetPath = None,
    num_prompts: opt.NumPrompts = "1000",
    output_len: opt.OutputLen = None,
    tokenizer: opt.Tokenizer = None,
    no_oversample: opt.NoOversample = False,
    disable_shuffle: opt.DisableShuffle = False,
    random_input_len: opt.RandomInputLen = 1024,
    random_output_len: opt.RandomOutputLen = 128,
    random_prefix_len: opt.RandomPrefixLen = 0,
    random_range_ratio: opt.RandomRangeRatio = 0.0,
    random_mm_base_items_per_request: opt.MmItems = 1,
    random_mm_num_mm_items_range_ratio: opt.MmItemsRatio = 0.0,
    random_mm_limit_mm_per_prompt: opt.MmLimits = '{"image": 255, "video": 1, "audio": 64}',
    random_mm_bucket_config: opt.MmBuckets = "{(256, 256, 1): 0.5, (720, 1280, 1): 0.5}",
    seed_tts_locale: opt.SeedTtsLocale = "en",
    seed_tts_root: opt.SeedTtsRoot = None,
    seed_tts_file_ref_audio: opt.SeedTtsFile = False,
    seed_tts_system_prompt: opt.SeedTtsSystem = "",
    daily_omni_qa_json: opt.DailyQa = None,
    daily_omni_video_dir: opt.DailyVideos = None,
    daily_omni_inline_local_video: opt.DailyInline = False,
    daily_omni_input_mode: opt.DailyInput = "all",
    daily_omni_pack_mode: opt.DailyPack = "qwen",
    duplex_session_s: opt.DuplexSession = 30.0,  # noqa: ARG001 - read from the context
    duplex_talk_s: opt.DuplexTalk = 2.0,  # noqa: ARG001 - read from the context
    duplex_pause_s: opt.DuplexPause = 3.0,  # noqa: ARG001 - read from the context
    duplex_chunk_ms: opt.DuplexChunk = 200,  # noqa: ARG001 - read from the context
    duplex_stagger_s: opt.DuplexStagger = 1.0,  # noqa: ARG001 - read from the context
    max_concurrency: opt.MaxConcurrency = "",
    request_rate: opt.RequestRate = inf,
    burstiness: opt.Burstiness = 1.0,
    num_warmups: opt.NumWarmups = 0,
    seed: opt.Seed = 0,
    modalities: opt.Modalities = "",
    extra_body: opt.ExtraBody = "{}",
    ignore_eos: opt.IgnoreEos = False,
    temperature: opt.SamplingFloat = None,
    top_p: opt.SamplingFloat = None,
    top_k: opt.SamplingInt = None,
    min_p: opt.SamplingFloat = None,
    frequency_penalty: opt.SamplingFloat = None,
    presence_penalty: opt.SamplingFloat = None,
    repetition_penalty: opt.SamplingFloat = None,
    percentile_metrics: opt.PercentileMetrics = "ttft,tpot,itl,e2el,audio_ttfp,audio_rtf,audio_duration,audio_underrun",
    metric_percentiles: opt.MetricPercentiles = "99",
    goodput: opt.Goodput = None,
    continuity_threshold_s: opt.ContinuityThreshold = 0.1,
    print_stage: opt.PrintStage = False,
    save_result: opt.SaveResult = False,
    save_detailed: opt.SaveDetailed = False,
    append_result: opt.AppendResult = False,
    result_dir: opt.ResultDir = Path("."),
    result_filename: opt.ResultFilename = "",
    metadata: opt.Metadata = None,
    label: opt.Label = "",
    plot: opt.Plot = None,
    disable_tqdm: opt.DisableTqdm = False,
    omni: opt.Omni = False,  # noqa: ARG001 - taken so that the reference's command lines run
    trust_remote_code: opt.TrustRemoteCode = False,  # noqa: ARG001
) -> None:
    """Send requests to a running server and measure the answers: text, speech and their timing.

    With --backend openai-realtime-duplex they are live sessions, paced as microphones would: how long after the end
    of each second of sound is it decided and answered? --num-prompts is their number, --max-concurrency how many at
    once; --extra-body goes into the session object.

    With --max-concurrency a closed loop keeps so many requests under way; with --request-rate they arrive at random
    times, an open loop. Exit code 1 if any request failed.

    \b
    Examples:
      antiphon bench serve --num-prompts 32 --max-concurrency 1,4,8 --random-input-len 96
      antiphon bench serve --dataset-name random-mm --modalities text --num-prompts 20 --request-rate 2
      antiphon bench serve --dataset-name seed-tts --dataset-path ./seedtts --num-prompts 32 --save-result
      antiphon bench serve --base-url http://gpu:8000 --max-concurrency 1,4,16 --num-prompts 64 --plot run.png
      antiphon bench serve --backend openai-realtime-duplex --max-concurrency 1,16,64 --num-prompts 1,16,64
    """
    from antiphon.bench.bench_request import BodyOptions
    from antiphon.bench.datasets.catalogue import open_dataset
    from antiphon.bench.metric_names import parse_goodput, parse_metrics, parse_percentiles
    from antiphon.bench.settings import RunSettings, Target, parse_backend, parse_levels
    from antiphon.cli.bench_duplex_load import check_chat_flags, is_duplex, serve_duplex
    from antiphon.cli.bench_report import Report, check_plot, measure_and_report
    from antiphon.cli.bench_setup import (
        DatasetFlags,
        check_rate,
        parse_base_url,
        parse_extra_body,
        parse_headers,
        parse_metadata,
        pick_dataset,
    )

    if is_duplex(backend):
        if not serve_duplex(ctx):
            raise typer.Exit(1)
        return
    check_chat_flags(ctx)
    kind = parse_backend(backend)
    metrics = parse_metrics(percentile_metrics)
    check_rate(request_rate, burstiness)
    check_plot(plot)
    has_stage_metrics = print_stage or any(metric.name in ("tpot", "itl") for metric in metrics)
    sampling: dict[str, object] = {
        "ignore_eos": True if ignore_eos else None,
        "temperature": temperature,
        "top_p": top_p,
        "top_k": top_k,
        "min_p": min_p,
        "frequency_penalty": frequency_penalty,
        "presence_penalty": presence_penalty,
        "repetition_penalty": repetition_penalty,
    }
    body = BodyOptions(
        backend=kind,
        model=served_model_name or model,
        sampling={name: value for name, value in sampling.items() if value is not None},
        has_stage_metrics=has_stage_metrics,
        extra_body=parse_extra_body(extra_body, modalities),
    )
    options = pick_dataset(
        DatasetFlags(
            name=dataset_name,
            path=dataset_path,
            output_len=output_len,
            random_input_len=random_input_len,
            random_output_len=random_output_len,
            random_prefix_len=random_prefix_len,
            random_range_ratio=random_range_ratio,
            mm_items=random_mm_base_items_per_request,
            mm_items_ratio=random_mm_num_mm_items_range_ratio,
            mm_limits=random_mm_limit_mm_per_prompt,
            mm_buckets=random_mm_bucket_config,
            seed_tts_locale=seed_tts_locale,
            seed_tts_root=seed_tts_root,
            seed_tts_is_inline=not seed_tts_file_ref_audio,
            seed_tts_system_prompt=seed_tts_system_prompt,
            daily_qa=daily_omni_qa_json,
            daily_videos=daily_omni_video_dir,
            daily_is_inline=daily_omni_inline_local_video,
            daily_input_mode=daily_omni_input_mode,
            daily_pack_mode=daily_omni_pack_mode,
        )
    )
    settings = RunSettings(
        backend=kind,
        levels=parse_levels(max_concurrency, num_prompts),
        request_rate=request_rate,
        burstiness=burstiness,
        num_warmups=num_warmups,
        seed=seed,
        timeout_s=omni_request_timeout_s if omni_request_timeout_s > 0 else 6 * 3600.0,
        ready_timeout_s=ready_check_timeout_sec,
        metrics=metrics,
        percentiles=parse_percentiles(metric_percentiles),
        goodput_s=parse_goodput(goodput or []),
        continuity_threshold_s=continuity_threshold_s,
        has_stage_table=print_stage,
    )
    target = Target(
        base_url=parse_base_url(base_url, host, port),
        endpoint=endpoint or kind.endpoint,
        headers=parse_headers(header or [], api_key),
    )
    report = Report(
        label=label or kind.value,
        dataset=dataset_name,
        tokenizer=tokenizer,
        is_saved=save_result or save_detailed or append_result or bool(result_filename),
        is_detailed=save_detailed,
        has_append=append_result,
        folder=result_dir,
        filename=result_filename,
        metadata=parse_metadata(metadata or []),
        plot=plot,
        has_progress=not disable_tqdm,
    )
    requests = open_dataset(options, seed=seed, is_shuffled=not disable_shuffle, is_repeated=not no_oversample)
    if not measure_and_report(requests, target, body, settings, report):
        raise typer.Exit(1)
