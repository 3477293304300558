"""`DuplexClient`: a duplex session with a server, over a WebSocket that is restored when it breaks."""

from antiphon.client.address import build_realtime_url
from antiphon.client.config import ReconnectPolicy, SessionConfig
from antiphon.client.session import DuplexSession
from antiphon.client.socket_link import SocketLink, SocketOptions
from antiphon.client.transport import Connect, websocket_connect

DEFAULT_RECONNECT = ReconnectPolicy()


class DuplexClient(DuplexSession):
    """A `DuplexSession` with the server at *url*.

    Args:
        url: such as `ws://127.0.0.1:8099`; path and query are filled in.
        reconnect: None: a lost connection ends the session.
        heartbeat_interval_s: None: no heartbeats; the server then ends a session that sends nothing for long.
        connect: opens a connection; the default one uses the websockets library.
        api_key: for servers that ask for one; not for *connect*, which brings its own.
    """

    def __init__(
        self,
        url: str,
        *,
        model: str | None = None,
        config: SessionConfig | None = None,
        reconnect: ReconnectPolicy | None = DEFAULT_RECONNECT,
        heartbeat_interval_s: float | None = 30.0,
        handshake_timeout_s: float = 30.0,
        connect: Connect | None = None,
        api_key: str | None = None,
    ) -> None:
        self.url = build_realtime_url(url, model, autostart=False)
        headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
        options = SocketOptions(
            reconnect=reconnect,
            heartbeat_interval_s=heartbeat_interval_s,
            handshake_timeout_s=handshake_timeout_s,
        )
        self._socket = SocketLink(self.url, connect or websocket_connect(headers, handshake_timeout_s), options)
        super().__init__(self._socket, model=model, config=config)

    @property
    def resume_token(self) -> str | None:
        """What the session can be resumed with; None if it cannot."""
        return self._socket.resume_token
