"""`antiphon page`: the live page by itself, in front of a Realtime server that runs elsewhere."""

from pathlib import Path
from typing import Annotated

import typer

DEFAULT_PORT = 7863


def page(
    server: Annotated[
        str, typer.Option(help="The Realtime server: ws://, wss://, http:// or https://.", show_default=True)
    ] = "ws://127.0.0.1:8099",
    host: Annotated[str, typer.Option(help="Where to listen; 0.0.0.0 is everywhere.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535)] = DEFAULT_PORT,
    allowed_origins: Annotated[
        list[str] | None, typer.Option("--allowed-origin", help="An Origin beside the page's own; may be repeated.")
    ] = None,
    max_sessions: Annotated[int, typer.Option(min=1, help="Sessions that may go through at once.")] = 64,
    ssl_certfile: Annotated[Path | None, typer.Option(help="TLS: browsers lend microphones over HTTPS only.")] = None,
    ssl_keyfile: Annotated[Path | None, typer.Option(help="TLS: the key of the certificate.")] = None,
) -> None:
    """Serve the live page on its own port and hand its sockets through to a server.

    \b
    Examples:
      antiphon page
      antiphon page --server wss://gpu.example:8099 --host 0.0.0.0 --ssl-certfile cert.pem --ssl-keyfile key.pem
    """
    import uvicorn

    from antiphon.serving.realtime.proxy import parse_upstream, proxy_app
    from antiphon.serving.realtime.routes import UVICORN_OPTIONS
    from antiphon.serving.server import bind

    upstream = parse_upstream(server)
    app = proxy_app(upstream, allowed_origins=allowed_origins or (), max_sessions=max_sessions)
    listener = bind(host, port)
    config = uvicorn.Config(
        app,
        log_level="warning",
        server_header=False,
        ssl_certfile=ssl_certfile,
        ssl_keyfile=ssl_keyfile,
        timeout_graceful_shutdown=2,
        **UVICORN_OPTIONS,
    )
    scheme = "https" if ssl_certfile else "http"
    typer.echo(f"live page for {upstream.base} on {scheme}://{host}:{listener.getsockname()[1]}/", err=True)
    uvicorn.Server(config).run(sockets=[listener])
