"""`antiphon generate`: answer one prompt, or the prompts of a file, with text and a WAV."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from antiphon.cli.media_order import media_order
from antiphon.cli.prompt_lines import PromptLine, read_prompt_lines, user_messages
from antiphon.config.deploy import DeployConfig
from antiphon.core.errors import AntiphonError, ConfigError, PromptError
from antiphon.core.sampling import SamplingParams

DEFAULT_OUTPUT = Path("output.wav")
_LAYOUT = "the layout's"
_ARGS = "antiphon.args"


class OrderedCommand(TyperCommand):
    """Keeps the arguments as they were given, so that media options can be put in their order."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta[_ARGS] = tuple(args)
        return super().parse_args(ctx, args)


def generate(
    ctx: typer.Context,
    model: Annotated[str, typer.Argument(help="Folder of a checkpoint, a hub id, or 'tiny'.", metavar="MODEL")],
    prompt: Annotated[str, typer.Option(help="What the user says; optional with audio or video.")] = "",
    system: Annotated[str | None, typer.Option(help="System prompt.")] = None,
    image: Annotated[list[str] | None, typer.Option(help="Image file; may be repeated.", metavar="FILE")] = None,
    audio: Annotated[list[str] | None, typer.Option(help="Audio file; may be repeated.", metavar="FILE")] = None,
    video: Annotated[list[str] | None, typer.Option(help="Video file, with its sound.", metavar="FILE")] = None,
    ref_audio: Annotated[
        str | None,
        typer.Option(help="Recording of the voice to speak in.", metavar="FILE", show_default="the model's own"),
    ] = None,
    jsonl: Annotated[Path | None, typer.Option(help="Several prompts, one JSON object a line.", metavar="FILE")] = None,
    modalities: Annotated[str, typer.Option(help="What to answer with: text, or text,audio.")] = "text,audio",
    output: Annotated[
        Path, typer.Option(help="The WAV; with --jsonl each prompt's line number is added.", metavar="FILE")
    ] = DEFAULT_OUTPUT,
    stream: Annotated[bool, typer.Option("--stream", help="Speak while the text still grows.")] = False,
    max_tokens: Annotated[int | None, typer.Option(help="Most text tokens.", show_default=_LAYOUT)] = None,
    temperature: Annotated[float | None, typer.Option(help="Of the text; 0 is greedy.", show_default=_LAYOUT)] = None,
    top_p: Annotated[float | None, typer.Option(help="Of the text.", show_default=_LAYOUT)] = None,
    top_k: Annotated[int | None, typer.Option(help="Of the text; -1 is off.", show_default=_LAYOUT)] = None,
    repetition_penalty: Annotated[float | None, typer.Option(help="Of the text.", show_default=_LAYOUT)] = None,
    stop: Annotated[list[str] | None, typer.Option(help="End the text before this; may be repeated.")] = None,
    seed: Annotated[
        int | None, typer.Option(help="Of all chance: text, speech and vocoder.", show_default=_LAYOUT)
    ] = None,
    max_speech_tokens: Annotated[
        int | None, typer.Option(help="Most codec frames, 40 ms of speech each.", show_default=_LAYOUT)
    ] = None,
    max_slices: Annotated[
        int | None, typer.Option(help="Most slices of an image.", show_default="the model's own")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="cpu, cuda, cuda:1 …", show_default="a GPU if there is one")
    ] = None,
    dtype: Annotated[
        str, typer.Option(help="auto, float32, bfloat16 or float16.", show_default="auto: the layout's")
    ] = "auto",
    load_format: Annotated[
        str, typer.Option(help="auto, or dummy for random weights.", show_default="auto: the layout's")
    ] = "auto",
    deploy_config: Annotated[
        str | None,
        typer.Option(help="Deploy file: a shipped layout's name or a path.", show_default="the device's layout"),
    ] = None,
    stage_overrides: Annotated[
        str, typer.Option(help="JSON of stage keys by stage id, stronger than the file.", metavar="JSON")
    ] = "",
    eager: Annotated[bool, typer.Option("--eager", help="Use the slow reference generator, without engine.")] = False,
    processes: Annotated[
        bool, typer.Option("--processes", help="Run the layout's worker processes, not threads of this one.")
    ] = False,
) -> None:
    """Answer a prompt with text on stdout and speech in a WAV.

    Images, audio and video stand in front of the prompt, in the order of the command line. Everything but the text
    goes to stderr.

    \b
    Examples:
      antiphon generate tiny --prompt "Hello, who are you?" --output hello.wav
      antiphon generate MODEL --image a.jpg --image b.jpg --prompt "What changed?" --modalities text
      antiphon generate MODEL --audio question.ogg --ref-audio voice.wav --stream
      antiphon generate MODEL --video clip.mp4 --prompt "What happens here?"
      antiphon generate MODEL --jsonl prompts.jsonl --output answers/a.wav
      antiphon generate MODEL --prompt "Hello" --stage-overrides '{"0": {"max_model_len": 8192}}'

    \b
    A line of a --jsonl file is an object with any of: prompt, system, images, audios, video, ref_audio, modalities,
    sampling (fields of the text), output; or messages instead of the first five. Media paths are relative to the file.
    """
    wanted = [name.strip() for name in modalities.split(",") if name.strip()]
    text_fields: dict[str, object] = {
        "temperature": temperature,
        "top_p": top_p,
        "top_k": top_k,
        "repetition_penalty": repetition_penalty,
        "max_tokens": max_tokens,
        "stop": tuple(stop) if stop else None,
    }
    from antiphon.offline.choices import parse_deploy, parse_device

    layout = parse_deploy(deploy_config, parse_device(device), stage_overrides)
    stages = _stages(layout, text_fields, seed, max_speech_tokens)
    values = {"image": image or [], "audio": audio or [], "video": video or []}
    if jsonl is not None:
        if prompt or system is not None or ref_audio is not None or any(values.values()):
            raise ConfigError("--jsonl brings its own prompts; leave --prompt, --system, --ref-audio and media out")
        lines = read_prompt_lines(jsonl, modalities=wanted)
    else:
        media = media_order(ctx.meta[_ARGS], values)
        if not prompt.strip() and not media:
            raise PromptError("nothing to answer: give --prompt, --image, --audio or --video, or --jsonl")
        fields = {
            "messages": user_messages(prompt, system, media),
            "modalities": wanted,
            "ref_audio": ref_audio,
        }
        lines = [PromptLine(where="", number=0, prompt=fields, sampling={}, output=None)]
    outputs = _output_names(lines, output)
    _answer(
        lines,
        outputs,
        stages,
        model=model,
        layout=layout,
        engine=_engine(eager, processes),
        stream=stream,
        max_slices=max_slices,
        device=device,
        dtype=dtype,
        load_format=load_format,
    )


def _engine(eager: bool, processes: bool) -> Literal["auto", "processes", "eager"]:
    if eager and processes:
        raise ConfigError("--eager and --processes exclude one another; give one of them")
    return "eager" if eager else "processes" if processes else "auto"


def _answer(
    lines: Sequence[PromptLine],
    outputs: Sequence[Path],
    stages: tuple[SamplingParams, SamplingParams, SamplingParams],
    *,
    model: str,
    layout: DeployConfig,
    engine: Literal["auto", "processes", "eager"],
    stream: bool,
    max_slices: int | None,
    device: str | None,
    dtype: str,
    load_format: str,
) -> None:
    """Check every prompt, then load the model, then answer one prompt after another."""
    from antiphon.cli.answering import CodeProgress, show_answer, summarise
    from antiphon.cli.load_progress import loading
    from antiphon.offline.choices import parse_dtype
    from antiphon.offline.omni import Omni
    from antiphon.offline.prompt_input import parse_prompt

    parse_dtype(dtype)
    if load_format not in ("auto", "dummy"):
        raise ConfigError(f"load_format is {load_format!r}; known: auto, dummy")
    processor = {} if max_slices is None else {"max_slice_nums": max_slices}
    prompts = [{**line.prompt, "mm_processor_kwargs": processor} for line in lines]
    speaks: list[bool] = []
    for line, path, prompt in zip(lines, outputs, prompts, strict=True):
        with _Placed(line.where):
            _line_stages(stages, line)
            speaks.append(parse_prompt(prompt).wants_audio)
            if speaks[-1]:
                _check_output(path)
    with loading(model) as progress:
        omni = Omni(
            model,
            deploy_config=layout,
            engine=engine,
            device=device,
            dtype=dtype,
            load_format="dummy" if load_format == "dummy" else None,
            with_speech=any(speaks),
            progress=progress,
        )
    for line, path, prompt, has_speech in zip(lines, outputs, prompts, speaks, strict=True):
        with _Placed(line.where):
            if line.where:
                typer.echo(f"{line.where}:", err=True)
            code_progress = CodeProgress(is_shown=has_speech and not stream)
            events = omni.stream(
                prompt,
                _line_stages(stages, line),
                handoff="stream" if stream else omni.handoff,
                report_codes=code_progress.report,
            )
            summarise(show_answer(events, path, code_progress), path if has_speech else None)
    omni.close()


class _Placed:
    """Puts FILE:LINE in front of the message of an error that one line of a prompt file causes."""

    def __init__(self, where: str) -> None:
        self._where = where

    def __enter__(self) -> None:
        """Nothing to set up."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._where and isinstance(error, AntiphonError):
            raise type(error)(f"{self._where}: {error}") from None


def _stages(
    layout: DeployConfig, text_fields: Mapping[str, object], seed: int | None, max_speech_tokens: int | None
) -> tuple[SamplingParams, SamplingParams, SamplingParams]:
    """The layout's sampling with what the command line says instead."""
    thinker, talker, code2wav = (stage.default_sampling_params for stage in layout.stages)
    seeds = {} if seed is None else {"seed": seed}
    given = {name: value for name, value in text_fields.items() if value is not None}
    text = SamplingParams.from_mapping({**asdict(thinker), **given, **seeds})
    limits = {}
    if max_speech_tokens is not None:
        least = min(talker.min_tokens, max(max_speech_tokens, 0))
        limits = {"max_tokens": max_speech_tokens, "min_tokens": least}
    try:
        speech = SamplingParams.from_mapping({**asdict(talker), **limits, **seeds})
    except AntiphonError as error:
        raise type(error)(f"--max-speech-tokens: {error}") from None
    return (text, speech, SamplingParams.from_mapping({**asdict(code2wav), **seeds}))


def _line_stages(
    stages: tuple[SamplingParams, SamplingParams, SamplingParams], line: PromptLine
) -> tuple[SamplingParams, SamplingParams, SamplingParams]:
    thinker = SamplingParams.from_mapping({**asdict(stages[0]), **line.sampling})
    return (thinker, stages[1], stages[2])


def _output_names(lines: Sequence[PromptLine], output: Path) -> list[Path]:
    """One WAV for each line: the name the line gives, beside *output*, or *output* with the line's number."""
    if len(lines) == 1 and not lines[0].where:
        return [output]
    names = [
        output.with_name(f"{output.stem}-{line.number}{output.suffix}")
        if line.output is None
        else output.parent / line.output
        for line in lines
    ]
    for place, name in enumerate(names):
        if name in names[:place]:
            raise ConfigError(f"{lines[place].where}: output {name} is also the output of another line")
    return names


def _check_output(path: Path) -> None:
    """Refuse a name that could not be written, before anything is loaded."""
    if path.suffix.lower() != ".wav":
        raise ConfigError(f"{path}: only WAV files are written; give a name that ends in .wav")
    if path.is_dir():
        raise ConfigError(f"{path}: is a folder; give the name of a WAV file")
    nearest = next(folder for folder in path.absolute().parents if folder.exists())
    try:
        TemporaryFile(dir=nearest).close()
    except OSError as error:
        raise ConfigError(f"{path}: nothing can be written to {nearest} ({error.strerror})") from None
