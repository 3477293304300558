"""Runs the application under uvicorn, and lets it end well."""

import asyncio
import logging
import signal
import socket
import ssl
from collections.abc import Callable
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from antiphon.core.errors import ConfigError
from antiphon.serving.lifecycle import Lifecycle
from antiphon.serving.realtime.routes import UVICORN_OPTIONS
from antiphon.serving.settings import ServeSettings

_log = logging.getLogger(__name__)
_LAST_MOMENT_S = 2  # for what was cancelled to write its last words


class DrainingServer(uvicorn.Server):
    """On the first signal it stops taking requests and waits for those in flight; on the second it ends at once.

    Until the wait is over the socket stays open, so that probes see a server that is not ready.

    Args:
        timeout_s: how long requests in flight may take.
        on_ready: called when requests are taken.
        cut_off: ends what is still in flight then; its streams say so.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        lifecycle: Lifecycle,
        *,
        timeout_s: float,
        on_ready: Callable[[], None],
        cut_off: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._cut_off = cut_off
        self._lifecycle = lifecycle
        self._timeout_s = timeout_s
        self._on_ready = on_ready
        self._loop: asyncio.AbstractEventLoop | None = None
        self._draining: asyncio.Task[None] | None = None

    async def startup(self, sockets: object = None) -> None:
        await super().startup(sockets=sockets)  # type: ignore[arg-type]
        self._loop = asyncio.get_running_loop()
        if self.started:
            self._on_ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - uvicorn's signature
        """Runs in the main thread, between two bytecodes of whatever it was doing."""
        if self._lifecycle.is_draining or self._loop is None:
            self.should_exit = True
            self.force_exit = self.force_exit or sig == signal.SIGINT
            return
        self._lifecycle.is_draining = True
        self._loop.call_soon_threadsafe(self._start_drain)

    def _start_drain(self) -> None:
        self._draining = asyncio.ensure_future(self._drain())

    async def _drain(self) -> None:
        _log.info("draining: %d requests in flight, at most %g s", self._lifecycle.num_in_flight, self._timeout_s)
        if not await self._lifecycle.drain(self._timeout_s):
            _log.warning("the drain time is over: %d requests are cut off", self._lifecycle.num_in_flight)
            await asyncio.to_thread(self._cut_off)
            await self._lifecycle.drain(_LAST_MOMENT_S)
        self.should_exit = True


def bind(host: str, port: int) -> socket.socket:
    """The socket to serve on, bound but not yet listening: until the server is ready, connections are refused.

    Raises:
        ConfigError: the address is not one of this machine's, or is taken.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise ConfigError(f"cannot listen on {host}, port {port}: {error.strerror or error}") from None
    return bound


def run_server(
    app: ASGIApp,
    settings: ServeSettings,
    lifecycle: Lifecycle,
    *,
    listener: socket.socket,
    on_ready: Callable[[], None],
    cut_off: Callable[[], None],
) -> None:
    """Serve on *listener* until told to stop. The rest as `DrainingServer`."""
    server = build_server(app, settings, lifecycle, on_ready=on_ready, cut_off=cut_off)
    server.run(sockets=[listener])


def build_server(
    app: ASGIApp,
    settings: ServeSettings,
    lifecycle: Lifecycle,
    *,
    on_ready: Callable[[], None],
    cut_off: Callable[[], None],
) -> DrainingServer:
    """The server, not yet running."""
    tls = settings.tls
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        root_path=settings.root_path,
        log_config=None,
        access_log=settings.has_access_log,
        server_header=False,
        timeout_keep_alive=settings.keep_alive_s,
        timeout_graceful_shutdown=_LAST_MOMENT_S,
        ssl_keyfile=tls.keyfile,
        ssl_certfile=tls.certfile,
        ssl_ca_certs=None if tls.ca_certs is None else str(tls.ca_certs),
        ssl_cert_reqs=tls.cert_reqs or ssl.CERT_NONE,
        **UVICORN_OPTIONS,
    )
    return DrainingServer(config, lifecycle, timeout_s=settings.shutdown_timeout_s, on_ready=on_ready, cut_off=cut_off)
