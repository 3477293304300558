"""`antiphon serve`: answer OpenAI's chat completions with text and speech over HTTP."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from antiphon.core.errors import ConfigError

_FOUND = "antiphon.serve"
DEFAULT_PORT = 8099
TINY = "tiny"


class ServeCommand(TyperCommand):
    """Takes the flags that people already type for `vllm serve`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        from antiphon.cli.serve_args import OwnFlags, read_serve_args

        takes_value: dict[str, bool] = {"--help": False}
        for option in self.params:
            is_switch = bool(getattr(option, "is_flag", False))
            takes_value.update(dict.fromkeys([*option.opts, *option.secondary_opts], not is_switch))
        flags = OwnFlags({name: value for name, value in takes_value.items() if name.startswith("-")})
        found = read_serve_args(args, flags)
        ctx.meta[_FOUND] = found
        return super().parse_args(ctx, found.rest)


def serve(
    ctx: typer.Context,
    model: Annotated[
        str | None,
        typer.Argument(help="Folder of a checkpoint, or a hub id.", metavar="[MODEL]", show_default="tiny, built in"),
    ] = None,
    model_option: Annotated[str | None, typer.Option("--model", help="The same as the argument.")] = None,
    omni: Annotated[bool, typer.Option("--omni", help="Accepted; it then needs a MODEL.")] = False,
    host: Annotated[str, typer.Option(help="Where to listen; 0.0.0.0 is everywhere.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535)] = DEFAULT_PORT,
    served_model_name: Annotated[
        list[str] | None, typer.Option(help="Names for requests; the first is in answers.", show_default="MODEL")
    ] = None,
    api_key: Annotated[list[str] | None, typer.Option(help="A key that requests must bring.", metavar="KEY")] = None,
    deploy_config: Annotated[
        str | None, typer.Option(help="Deploy file: a shipped name or a path.", show_default="by device")
    ] = None,
    stage_overrides: Annotated[str, typer.Option(help='Such as \'{"0": {"max_num_seqs": 8}}\'.', metavar="JSON")] = "",
    device: Annotated[
        str | None, typer.Option(help="cpu, cuda, cuda:1 …", show_default="a GPU if there is one")
    ] = None,
    processes: Annotated[
        bool, typer.Option("--processes", help="Stages in worker processes, even if threads would do.")
    ] = False,
    chat_template: Annotated[str | None, typer.Option(help="A jinja file or text.", metavar="PATH|TEXT")] = None,
    trust_request_chat_template: Annotated[bool, typer.Option("--trust-request-chat-template")] = False,
    default_chat_template_kwargs: Annotated[
        str, typer.Option(help="enable_thinking and use_tts_template of requests that do not say.", metavar="JSON")
    ] = "",
    mm_processor_kwargs: Annotated[
        str, typer.Option(help="max_slice_nums, use_image_id, use_audio_in_video by default.", metavar="JSON")
    ] = "",
    allowed_local_media_path: Annotated[
        str, typer.Option(help="Requests may name files below it.", metavar="DIR", show_default="none")
    ] = "",
    allowed_media_domains: Annotated[
        list[str] | None,
        typer.Option(
            help="Hosts media may come from; .a.org is all below; none is no host.", show_default="all public"
        ),
    ] = None,
    allowed_origins: Annotated[
        list[str] | None,
        typer.Option(help="CORS; a live session's page must be listed or the server's own.", show_default="*"),
    ] = None,
    allowed_methods: Annotated[list[str] | None, typer.Option(help="CORS.", show_default="*")] = None,
    allowed_headers: Annotated[list[str] | None, typer.Option(help="CORS.", show_default="*")] = None,
    allow_credentials: Annotated[bool, typer.Option("--allow-credentials", help="CORS.")] = False,
    ssl_keyfile: Annotated[Path | None, typer.Option(metavar="FILE")] = None,
    ssl_certfile: Annotated[Path | None, typer.Option(metavar="FILE")] = None,
    ssl_ca_certs: Annotated[Path | None, typer.Option(metavar="FILE")] = None,
    ssl_cert_reqs: Annotated[int, typer.Option(min=0, max=2, help="Of clients: 0 none, 1 optional, 2 required.")] = 0,
    root_path: Annotated[str, typer.Option(help="Prefix that a reverse proxy takes off.")] = "",
    shutdown_timeout: Annotated[
        float, typer.Option(min=0, help="Seconds for requests in flight after SIGTERM.")
    ] = 30.0,
    timeout_keep_alive: Annotated[int, typer.Option(min=0, help="Seconds an idle connection is kept.")] = 5,
    enable_prompt_tokens_details: Annotated[bool, typer.Option("--enable-prompt-tokens-details")] = False,
    enable_force_include_usage: Annotated[bool, typer.Option("--enable-force-include-usage")] = False,
    enable_log_requests: Annotated[bool, typer.Option("--enable-log-requests", help="Log prompts.")] = False,
    enable_log_outputs: Annotated[bool, typer.Option("--enable-log-outputs", help="Log answers.")] = False,
    disable_uvicorn_access_log: Annotated[bool, typer.Option("--disable-uvicorn-access-log")] = False,
    disable_log_stats: Annotated[bool, typer.Option("--disable-log-stats", help="No metrics.")] = False,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
    log_format: Annotated[str, typer.Option(help="text, or json for machines.")] = "text",
    log_file: Annotated[Path | None, typer.Option(metavar="FILE", show_default="stderr")] = None,
    otlp_traces_endpoint: Annotated[
        str | None,
        typer.Option(help="Send a trace of every request there; needs the extra otel.", metavar="URL"),
    ] = None,
    record: Annotated[
        Path | None, typer.Option(help="Keep a trace of every live session there.", metavar="DIR", show_default="none")
    ] = None,
    fake_engine: Annotated[
        str | None,
        typer.Option(
            help="No model: live sessions answer by a YAML script, or by the built-in one.", metavar="SCRIPT|default"
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Check flags and files, print what is in force, stop.")
    ] = False,
) -> None:
    """Serve a model over HTTP: chat with text, images, audio and video in, text and speech out.

    Without MODEL the built-in tiny model is served; it runs anywhere, and its voice is noise. Every stage key of a
    deploy file is a flag too (--max-model-len, --gpu-memory-utilization, --enforce-eager, --no-async-chunk,
    --limit-mm-per-prompt, --media-io-kwargs …) and holds for every stage; see 'antiphon config show'.

    \b
    Examples:
      antiphon serve
      antiphon serve openbmb/MiniCPM-o-4_5 --host 0.0.0.0 --api-key secret
      antiphon serve ~/models/MiniCPM-o-4_5 --deploy-config minicpmo_4_5_2gpu.yaml
      antiphon serve --fake-engine default --record ./traces
    """
    from antiphon.cli.serve_args import ServeArgs
    from antiphon.cli.serve_run import ServePlan, run
    from antiphon.serving.media_fetch import MediaPolicy
    from antiphon.serving.settings import CorsSettings, ServeSettings, TlsSettings

    found: ServeArgs = ctx.meta[_FOUND]
    template_kwargs = _json_object("--default-chat-template-kwargs", default_chat_template_kwargs, _TEMPLATE_KEYS)
    processor_kwargs = _json_object("--mm-processor-kwargs", mm_processor_kwargs, _PROCESSOR_KEYS)
    settings = ServeSettings(
        host=host,
        port=port,
        api_keys=tuple(key for key in api_key or () if key),
        cors=CorsSettings(
            origins=_words(allowed_origins, ("*",)),
            methods=_words(allowed_methods, ("*",)),
            headers=_words(allowed_headers, ("*",)),
            has_credentials=allow_credentials,
        ),
        live_origins=_words(allowed_origins, ()),
        tls=_tls(
            TlsSettings(keyfile=ssl_keyfile, certfile=ssl_certfile, ca_certs=ssl_ca_certs, cert_reqs=ssl_cert_reqs)
        ),
        root_path=root_path,
        media=MediaPolicy(domains=_domains(allowed_media_domains), local_folder=_folder(allowed_local_media_path)),
        chat_template=_template(chat_template),
        trusts_request_template=trust_request_chat_template,
        enable_thinking=bool(template_kwargs.get("enable_thinking", False)),
        use_tts_template=_switch(template_kwargs.get("use_tts_template")),
        max_slices=_count("--mm-processor-kwargs: max_slice_nums", processor_kwargs.get("max_slice_nums")),
        use_image_id=_switch(processor_kwargs.get("use_image_id")),
        use_audio_in_video=processor_kwargs.get("use_audio_in_video") is not False,
        shutdown_timeout_s=shutdown_timeout,
        keep_alive_s=timeout_keep_alive,
        has_metrics=not disable_log_stats,
        has_prompt_details=enable_prompt_tokens_details,
        always_has_usage=enable_force_include_usage,
        logs_requests=enable_log_requests,
        logs_outputs=enable_log_outputs,
        has_access_log=not disable_uvicorn_access_log,
        record_folder=record,
    )
    if fake_engine is not None:
        _check_fake(ctx, found)
    plan = ServePlan(
        model=_model(model, model_option, omni=omni),
        names=tuple(served_model_name or ()),
        device=device,
        deploy_config=deploy_config,
        stage_overrides=stage_overrides,
        engine_flags=found.engine,
        ignored_flags=found.ignored,
        in_processes=processes,
        fake_script=fake_engine,
        settings=settings,
        log_level=_one_of("--log-level", log_level.lower(), ("debug", "info", "warning", "error")),
        log_format=_one_of("--log-format", log_format, ("text", "json")),
        log_file=log_file,
        traces_endpoint=otlp_traces_endpoint,
    )
    run(plan, is_check=check)


_TEMPLATE_KEYS = ("enable_thinking", "use_tts_template")
_PROCESSOR_KEYS = ("max_slice_nums", "use_image_id", "use_audio_in_video")
# What --fake-engine honours, by parameter name.
_FAKE_FLAGS = frozenset(
    {
        "fake_engine",
        "record",
        "host",
        "port",
        "api_key",
        "allowed_origins",
        "ssl_keyfile",
        "ssl_certfile",
        "ssl_ca_certs",
        "ssl_cert_reqs",
        "shutdown_timeout",
        "timeout_keep_alive",
        "disable_uvicorn_access_log",
        "log_level",
        "log_format",
        "log_file",
        "check",
    }
)
_NATIVE_TEMPLATE = "minicpmo45_native.jinja"  # the reference's file; the built-in template says the same


def _model(argument: str | None, option: str | None, *, omni: bool) -> str:
    if argument is not None and option is not None and argument != option:
        raise ConfigError(f"MODEL is {argument!r} and --model is {option!r}; give one of them")
    given = argument if argument is not None else option
    if (omni or given is not None) and not (given or "").strip():
        raise ConfigError("--omni needs a MODEL" if given is None else "MODEL is blank")
    return given or TINY


def _json_object(flag: str, text: str, known: tuple[str, ...]) -> Mapping[str, object]:
    try:
        value = json.loads(text) if text else {}
    except ValueError as error:
        raise ConfigError(f"{flag}: not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise ConfigError(f"{flag}: must be an object with any of {', '.join(known)}")
    unknown = [key for key in value if key not in known]
    if unknown:
        raise ConfigError(f"{flag}: unknown key {unknown[0]!r}; known: {', '.join(known)}")
    for key, item in value.items():
        if key != "max_slice_nums" and not isinstance(item, bool):
            raise ConfigError(f"{flag}: {key} is {item!r}; it must be true or false")
    return value


def _switch(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _count(where: str, value: object) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 64):
        return value
    raise ConfigError(f"{where} is {value!r}; it must be from 1 to 64")


def _check_fake(ctx: typer.Context, found: Any) -> None:
    """What only a model could honour is refused beside --fake-engine, not left without effect.

    Raises:
        ConfigError: such a flag was given.
    """
    given = [name for name in ctx.params if str(ctx.get_parameter_source(name)).endswith("COMMANDLINE")]
    flags = [f"--{name.replace('_', '-')}" for name in [*given, *found.engine] if name not in _FAKE_FLAGS]
    if flags:
        raise ConfigError(f"{', '.join(flags)}: without effect beside --fake-engine, which serves no model")


def _words(given: list[str] | None, default: tuple[str, ...]) -> tuple[str, ...]:
    """Repeated values, or vLLM's JSON list."""
    if not given:
        return default
    words: list[str] = []
    for text in given:
        if text.startswith("["):
            try:
                words += [str(word) for word in json.loads(text)]
            except ValueError:
                raise ConfigError(f"{text!r} is not a JSON list") from None
        else:
            words.append(text)
    return tuple(words)


def _domains(given: list[str] | None) -> tuple[str, ...] | None:
    words = _words(given, ())
    if not words or "*" in words:
        return None
    return () if words == ("none",) else tuple(word.lower() for word in words)


def _folder(text: str) -> Path | None:
    if not text:
        return None
    folder = Path(text).expanduser()
    if not folder.is_dir():
        raise ConfigError(f"--allowed-local-media-path {folder}: is not a folder")
    return folder


def _template(given: str | None) -> str | None:
    """A file's text, the text itself, or the built-in one for the reference's file where there is none."""
    if given is None:
        return None
    if "{" in given or "\n" in given:
        return given
    path = Path(given).expanduser()
    if path.is_file():
        return path.read_text(encoding="utf-8")
    if path.name == _NATIVE_TEMPLATE:
        return None
    raise ConfigError(f"--chat-template {given}: no such file, and not a template")


def _tls(tls: Any) -> Any:
    if (tls.keyfile is None) != (tls.certfile is None):
        raise ConfigError("--ssl-keyfile and --ssl-certfile go together; give both or none")
    for path in (tls.keyfile, tls.certfile, tls.ca_certs):
        if path is not None and not path.is_file():
            raise ConfigError(f"{path}: no such file")
    return tls


def _one_of(flag: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        raise ConfigError(f"{flag} is {value!r}; known: {', '.join(known)}")
    return value
