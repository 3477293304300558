"""`antiphon serve --fake-engine`: the Realtime protocol with scripted answers and no model, for authors of clients."""

from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from antiphon.realtime.limits import Limits
from antiphon.realtime.script import DEFAULT_SCRIPT, load_script
from antiphon.serving.lifecycle import Lifecycle
from antiphon.serving.realtime.scripted_app import scripted_app, scripted_hub, scripted_settings
from antiphon.serving.server import bind, run_server
from antiphon.serving.settings import ServeSettings

DEFAULT = "default"


def serve_fake(script_name: str, settings: ServeSettings, console: Console, *, is_check: bool) -> None:
    """Serve the script until told to stop. *is_check*: only say that it could be.

    Raises:
        ConfigError: the script, the address or the folder for traces cannot be used.
    """
    script = DEFAULT_SCRIPT if script_name == DEFAULT else load_script(Path(script_name))
    if is_check:
        console.print(escape(f"the script {script_name} can be served with these flags."))
        return
    listener = bind(settings.host, settings.port)
    port = listener.getsockname()[1]
    realtime = replace(
        scripted_settings(),
        limits=Limits(max_sessions=script.max_sessions),
        api_keys=settings.api_keys,
        allowed_origins=settings.live_origins,
        record_folder=settings.record_folder,
    )
    hub = scripted_hub(script, realtime)
    lifecycle = Lifecycle()
    lifecycle.drains_too(hub.drain)
    lines = [f"ws://{settings.host}:{port}/v1/realtime: the script {script_name}, no model"]
    if settings.record_folder is not None:
        lines.append(f"traces of sessions go to {settings.record_folder}")
    run_server(
        scripted_app(hub),
        replace(settings, port=port),
        lifecycle,
        listener=listener,
        on_ready=lambda: console.print(escape("\n".join(lines)), highlight=False, soft_wrap=True),
        cut_off=lambda: None,
    )
