"""Starts the server that a command line asks for: load, build, say what is served where, serve."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from antiphon.cli.load_progress import loading
from antiphon.cli.serve_fake import serve_fake
from antiphon.cli.traces import open_traces
from antiphon.config.deploy import DeployConfig
from antiphon.config.env import read_environment
from antiphon.config.load import DEFAULT_DEPLOY_FILE, read_deploy
from antiphon.config.problems import DeployError
from antiphon.core.errors import ConfigError
from antiphon.core.sampling import STAGE_NAMES
from antiphon.pipeline.build import LoadFormat, build_omni_model
from antiphon.pipeline.eager.voices import DEFAULT_VOICE
from antiphon.pipeline.engine_settings import thread_problems
from antiphon.pipeline.local_engine import LocalEngine
from antiphon.pipeline.process_engine import ProcessEngine
from antiphon.pipeline.source import TINY
from antiphon.serving.app import Services, create_app
from antiphon.serving.engine_pipeline import EnginePipeline
from antiphon.serving.lifecycle import Lifecycle
from antiphon.serving.realtime.service import RealtimeService, realtime_service
from antiphon.serving.served_model import ServedModel, describe_model
from antiphon.serving.server import bind, run_server
from antiphon.serving.server_facts import server_facts
from antiphon.serving.settings import ServeSettings
from antiphon.telemetry.logs import set_up_logs

CPU_DEPLOY_FILE = "cpu.yaml"
_DTYPES = {"auto": None, "float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True, kw_only=True)
class ServePlan:
    """A checked command line."""

    model: str
    names: tuple[str, ...]
    device: str | None
    deploy_config: str | None
    stage_overrides: str
    engine_flags: Mapping[str, object]
    ignored_flags: Mapping[str, str]
    in_processes: bool
    fake_script: str | None
    settings: ServeSettings
    log_level: str
    log_format: str
    log_file: Path | None
    traces_endpoint: str | None


def run(plan: ServePlan, *, is_check: bool) -> None:
    """Serve until told to stop. *is_check*: only say what would be served.

    Raises:
        AntiphonError: the model, the deploy configuration or the address cannot be used.
    """
    console = Console(stderr=True)
    environment = read_environment()
    set_up_logs(
        form="json" if plan.log_format == "json" else "text",
        level=plan.log_level.upper(),
        file=plan.log_file,
        coloured=environment.log_color,
    )
    if plan.fake_script is not None:
        serve_fake(plan.fake_script, plan.settings, console, is_check=is_check)
        return
    device = _device(plan.device)
    deploy = _deploy(plan, device, console)
    _notice(plan.ignored_flags, console)
    if is_check:
        console.print(f"{escape(plan.model)} can be served on {device} with these flags.")
        return
    tracing = open_traces(plan.traces_endpoint, environment)
    listener = bind(plan.settings.host, plan.settings.port)
    settings = replace(plan.settings, port=listener.getsockname()[1])
    pipeline, engine = _build(plan, deploy, device, console)
    model = engine.model
    served = describe_model(
        model,
        deploy,
        root=plan.model,
        names=plan.names,
        created_s=int(time.time()),
        is_tiny=plan.model == TINY,
    )
    services = Services(
        pipeline=pipeline,
        model=served,
        voices=engine.voices,
        settings=settings,
        default_voice=None if model.folder is None else model.folder / DEFAULT_VOICE,
        realtime=_realtime(engine, deploy, settings, served),
        lifecycle=Lifecycle(),
        tracing=tracing,
        facts=server_facts(deploy, device, in_processes=isinstance(engine, ProcessEngine)),
    )
    run_server(
        create_app(services),
        settings,
        services.lifecycle,
        listener=listener,
        on_ready=lambda: console.print(_overview(settings, served, device)),
        cut_off=pipeline.close,
    )


def _realtime(
    engine: LocalEngine | ProcessEngine, deploy: DeployConfig, settings: ServeSettings, served: ServedModel
) -> RealtimeService:
    """The live sessions of this deployment, or their refusal where it serves turns only."""
    folder = engine.model.folder
    return realtime_service(
        engine.duplex,
        engine.voices,
        deploy.duplex_session,
        settings,
        model=served.names[0],
        default_recording=None if folder is None else folder / DEFAULT_VOICE,
        max_voice_s=served.max_voice_s,
        max_positions=engine.session_positions,
        speaks=engine.model.talker is not None,
        is_duplex=deploy.session_mode == "duplex",
    )


def _device(name: str | None) -> torch.device:
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ConfigError(f"--device is {name!r}; use cpu, cuda or cuda:N") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"--device is {name!r}, but this machine has no usable GPU; use cpu")
    return device


def _deploy(plan: ServePlan, device: torch.device, console: Console) -> DeployConfig:
    default = DEFAULT_DEPLOY_FILE if device.type == "cuda" else CPU_DEPLOY_FILE
    reading = read_deploy(
        plan.deploy_config or default,
        platform=device.type,
        flags=plan.engine_flags,
        stage_overrides=plan.stage_overrides,
        environment=read_environment(),
    )
    if reading.problems or reading.config is None:
        raise DeployError(reading.problems)
    # What a shipped file says for other systems is no news; what was typed is.
    typed = {item.path: item.reason for item in reading.ignored if item.origin.where.startswith("--")}
    _notice(typed, console)
    return reading.config


def _build(
    plan: ServePlan, deploy: DeployConfig, device: torch.device, console: Console
) -> tuple[EnginePipeline, LocalEngine | ProcessEngine]:
    """The engine, warmed up: on threads of this process, or in worker processes where the layout needs them."""
    thinker = deploy.stages[0]
    dtype, load_format = _DTYPES[thinker.dtype], _load_format(thinker.load_format)
    in_processes = plan.in_processes or bool(thread_problems(deploy))
    with loading(plan.model) as progress:
        model = build_omni_model(
            plan.model,
            device=_place(device, thinker.devices[0], in_processes=in_processes),
            dtype=dtype,
            load_format=load_format,
            only=() if in_processes else STAGE_NAMES,
            progress=progress,
        )
    with console.status("warming up") as status:

        def report(line: str) -> None:
            status.update(f"warming up: {escape(line)}")

        if in_processes:
            workers = ProcessEngine(model, deploy, source=plan.model, dtype=dtype, load_format=load_format)
            workers.start(report)
            return EnginePipeline(workers), workers
        engine = LocalEngine(model, deploy)
        engine.start(report)
        return EnginePipeline(engine), engine


def _place(device: torch.device, index: int, *, in_processes: bool) -> torch.device:
    """Where this process keeps weights; it has none if its workers do."""
    if in_processes:
        return torch.device("cpu")
    return torch.device("cuda", index) if device.type == "cuda" and device.index is None else device


def _load_format(name: str) -> LoadFormat:
    return "dummy" if name == "dummy" else "auto"


def _notice(ignored: Mapping[str, str], console: Console) -> None:
    """One line for all of them."""
    if ignored:
        listed = "; ".join(f"{name} ({reason})" for name, reason in ignored.items())
        console.print(escape(f"without effect here: {listed}"), style="yellow", highlight=False)


def _overview(settings: ServeSettings, served: ServedModel, device: torch.device) -> Table:
    scheme = "https" if settings.tls.certfile else "http"
    host = "localhost" if settings.host in ("0.0.0.0", "::", "127.0.0.1") else settings.host
    base = f"{scheme}://{host}:{settings.port}{settings.root_path}"
    title = f"{', '.join(served.names)} on {device}" + (" (tiny model: its voice is noise)" if served.is_tiny else "")
    table = Table(title=escape(title), title_justify="left", show_header=False)
    table.add_column(no_wrap=True)
    table.add_column()
    rows = [
        (f"{base}/", "try it in a browser"),
        (f"{base}/v1/chat/completions", "chat, text and speech"),
        (f"{base}/v1/audio/speech", "a text in a reference voice"),
        (f"{base.replace('http', 'ws', 1)}/v1/realtime", "live sessions: listens and speaks at the same time"),
        (f"{base}/live", "a live session in a browser"),
        (f"{base}/v1/models", "what is served"),
        (f"{base}/docs", "the interface"),
        (f"{base}/health", "health of every stage"),
    ]
    if settings.has_metrics:
        rows.append((f"{base}/metrics", "Prometheus"))
    for url, about in rows:
        table.add_row(escape(url), about)
    table.caption = "an API key is asked for" if settings.api_keys else "no API key is asked for"
    table.caption_justify = "left"
    return table
