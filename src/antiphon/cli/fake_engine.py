"""`antiphon fake-engine`: the full Realtime protocol with scripted decisions and speech, for authors of clients."""

from pathlib import Path
from typing import Annotated

import typer

DEFAULT_PORT = 8098


def fake_engine(
    script: Annotated[
        Path | None, typer.Argument(help="YAML script of decisions, text and speech.", show_default="a built-in one")
    ] = None,
    host: Annotated[str, typer.Option(help="Where to listen; 0.0.0.0 is everywhere.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535)] = DEFAULT_PORT,
) -> None:
    """Serve /v1/realtime without any model.

    \b
    Examples:
      antiphon fake-engine
      antiphon fake-engine my-dialogue.yaml --port 9000
      antiphon conformance ws://127.0.0.1:8098
    """
    import asyncio

    import uvicorn

    from antiphon.realtime.script import DEFAULT_SCRIPT, load_script
    from antiphon.serving.realtime.routes import UVICORN_OPTIONS
    from antiphon.serving.realtime.scripted_app import scripted_app, scripted_hub

    chosen = DEFAULT_SCRIPT if script is None else load_script(script)

    async def serve() -> None:
        hub = scripted_hub(chosen)  # belongs to the loop it is made on
        await uvicorn.Server(uvicorn.Config(scripted_app(hub), host=host, port=port, **UVICORN_OPTIONS)).serve()

    typer.echo(f"scripted Realtime server on ws://{host}:{port}/v1/realtime", err=True)
    asyncio.run(serve())
