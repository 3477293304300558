"""What the operator decided about the server itself; what concerns the engine is in the deploy configuration."""

from dataclasses import dataclass, field
from pathlib import Path

from antiphon.serving.media_fetch import MediaPolicy

DEFAULT_PORT = 8099


@dataclass(frozen=True, kw_only=True)
class CorsSettings:
    origins: tuple[str, ...] = ("*",)
    methods: tuple[str, ...] = ("*",)
    headers: tuple[str, ...] = ("*",)
    has_credentials: bool = False


@dataclass(frozen=True, kw_only=True)
class TlsSettings:
    keyfile: Path | None = None
    certfile: Path | None = None
    ca_certs: Path | None = None
    cert_reqs: int = 0


@dataclass(frozen=True, kw_only=True)
class ServeSettings:
    """Everything the handlers look at.

    Attributes:
        api_keys: none: no key is asked for.
        live_origins: whose pages may open live sessions beside the server's own; `*`: anybody's.
        root_path: prefix of a reverse proxy.
        enable_thinking: what a request that does not say so gets.
        shutdown_timeout_s: how long requests in flight may take after SIGTERM.
        send_timeout_s: a client that reads nothing for so long is gone.
        record_folder: where a trace of every live session is kept; None: none is.
    """

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    api_keys: tuple[str, ...] = ()
    cors: CorsSettings = CorsSettings()
    live_origins: tuple[str, ...] = ()
    tls: TlsSettings = TlsSettings()
    root_path: str = ""
    media: MediaPolicy = field(default_factory=MediaPolicy)
    chat_template: str | None = None
    trusts_request_template: bool = False
    enable_thinking: bool = False
    use_tts_template: bool | None = None
    max_slices: int | None = None
    use_image_id: bool | None = None
    use_audio_in_video: bool = True
    max_body_bytes: int = 96 * 2**20
    shutdown_timeout_s: float = 30.0
    send_timeout_s: float = 60.0
    keep_alive_s: int = 5
    has_metrics: bool = True
    has_prompt_details: bool = False
    always_has_usage: bool = False
    logs_requests: bool = False
    logs_outputs: bool = False
    has_access_log: bool = True
    record_folder: Path | None = None
