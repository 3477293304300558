"""Who may upgrade at all: key, origin and rate, each answered by HTTP before there is a socket."""

import hmac
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from antiphon.serving.realtime.settings import ANY_ORIGIN, RealtimeSettings

REALTIME_PROTOCOL = "realtime"
MAP_PROTOCOL = "map.realtime"
_KEY_PREFIX = "openai-insecure-api-key."
_MAX_ADDRESSES = 4096
_WINDOW_S = 60.0
_ORIGIN_TEXT = "this Origin is not allowed; list it in the setting allowed_origins (--allowed-origins)"
_REMOTE_TEXT = (
    "a client on another machine needs a key (--api-key), or a server that is open to all (--allowed-origins '*')"
)


@dataclass(frozen=True)
class Denial:
    """Why the upgrade is refused."""

    status: int
    code: str
    message: str


class Gate:
    """Checks a handshake. Keys are compared in constant time and never shown."""

    def __init__(self, settings: RealtimeSettings) -> None:
        self._keys = settings.api_keys
        self._origins = settings.allowed_origins
        self._is_open = ANY_ORIGIN in settings.allowed_origins
        self._max_handshakes = settings.max_handshakes_per_minute
        self._recent: OrderedDict[str, deque[float]] = OrderedDict()

    def check(self, headers: Headers, subprotocols: Sequence[str], address: str, now_s: float) -> Denial | None:
        """None: the socket may be accepted."""
        if self._is_flood(address, now_s):
            return Denial(429, "too_many_connections", "too many connections from this address; try again in a minute")
        if not self._is_known_origin(headers):
            return Denial(403, "origin_not_allowed", _ORIGIN_TEXT)
        if headers.get("origin") is None and not self._keys and not self._is_open and _is_remote(address):
            return Denial(403, "origin_required", _REMOTE_TEXT)
        if self._keys and not self._has_key(headers, subprotocols):
            return Denial(401, "unauthorized", "a valid API key is needed")
        return None

    def _has_key(self, headers: Headers, subprotocols: Sequence[str]) -> bool:
        offered = [item.removeprefix(_KEY_PREFIX) for item in subprotocols if item.startswith(_KEY_PREFIX)]
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            offered.append(token.strip())
        # Every pair is compared, so that the time says nothing about which key came close.
        found = [hmac.compare_digest(key.encode(), given.encode()) for key in self._keys for given in offered]
        return any(found)

    def _is_known_origin(self, headers: Headers) -> bool:
        """A page of the server's own address is known, unless that address is a name that anybody may point here:
        without keys a hostile page would else only have to rebind its own name."""
        origin = headers.get("origin")
        if origin is None or self._is_open or origin in self._origins:
            return True
        netloc = _netloc(origin)
        return bool(netloc) and netloc == headers.get("host") and (bool(self._keys) or _is_fixed(netloc))

    def _is_flood(self, address: str, now_s: float) -> bool:
        times = self._recent.setdefault(address, deque())
        self._recent.move_to_end(address)
        while len(self._recent) > _MAX_ADDRESSES:
            self._recent.popitem(last=False)
        while times and times[0] <= now_s - _WINDOW_S:
            times.popleft()
        if len(times) >= self._max_handshakes:
            return True
        times.append(now_s)
        return False


def _netloc(origin: str) -> str:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


def _is_fixed(netloc: str) -> bool:
    """Whether a host is a number or this machine's own name."""
    try:
        name = urlsplit(f"//{netloc}").hostname or ""
        return name == "localhost" or ip_address(name) is not None
    except ValueError:
        return False


def _is_remote(address: str) -> bool:
    """Whether a peer is another machine. One that has no number came over a local socket."""
    try:
        peer = ip_address(address)
        mapped = peer.ipv4_mapped if isinstance(peer, IPv6Address) else None
        return not (mapped or peer).is_loopback
    except ValueError:
        return False


def chosen_protocol(subprotocols: Sequence[str]) -> str | None:
    """The one subprotocol that is echoed. A key among them never is."""
    return next((item for item in subprotocols if item in (REALTIME_PROTOCOL, MAP_PROTOCOL)), None)
