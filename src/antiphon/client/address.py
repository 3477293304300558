"""The address of a Realtime session."""

from collections.abc import Mapping
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from antiphon.core.errors import ConfigError

_SCHEMES = {"ws": "ws", "wss": "wss", "http": "ws", "https": "wss"}
_PATH = "/v1/realtime"


def build_realtime_url(
    url: str, model: str | None, *, autostart: bool | None = None, extra_query: Mapping[str, str] | None = None
) -> str:
    """*url* with the path, `duplex=1` and `model` where it has none of its own.

    Args:
        autostart: None leaves the parameter as it is; else it is set, whatever *url* says.

    Raises:
        ConfigError: not an address of a server.
    """
    parts = urlsplit(url if "://" in url else f"ws://{url}")
    if parts.scheme not in _SCHEMES or not parts.hostname:
        raise ConfigError(f"{url!r} is no server's address; give something like ws://127.0.0.1:8099")
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    query.setdefault("duplex", "1")
    if model is not None:
        query.setdefault("model", model)
    if autostart is not None:
        query["autostart"] = "1" if autostart else "0"
    query |= extra_query or {}
    path = parts.path if parts.path.rstrip("/") else _PATH
    return urlunsplit((_SCHEMES[parts.scheme], parts.netloc, path, urlencode(query), ""))
