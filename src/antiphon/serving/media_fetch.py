"""Fetches media for a request without letting a client reach into the operator's network or disk.

The name of a host is resolved here, all its addresses are checked, and the connection goes to a checked one: a second
answer of the name server (DNS rebinding) is never asked for. Redirects start over. Proxies of the environment are not
used.
"""

import asyncio
import os
import socket
import ssl
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import httpcore

from antiphon.core.errors import MediaError
from antiphon.serving.addresses import is_public
from antiphon.serving.media_url import InlineMedia, LocalMedia, RemoteMedia, parse_media_url

_REFUSED_FILE = "a file: URL names no file below the folder of --allowed-local-media-path"
_REDIRECTS = (301, 302, 303, 307, 308)

Resolve = Callable[[str, int], Awaitable[list[str]]]


@dataclass(frozen=True, kw_only=True)
class MediaPolicy:
    """What may be fetched, and how much of it. `domains` None: any public host; empty: none."""

    domains: tuple[str, ...] | None = None
    local_folder: Path | None = None
    max_bytes: int = 64 * 2**20
    timeout_s: float = 20.0
    max_redirects: int = 3


async def resolve_host(host: str, port: int) -> list[str]:
    """All addresses of *host*."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class MediaFetcher:
    """Turns a media URL into bytes.

    Args:
        policy: the operator's.
        resolve: asks for the addresses of a host.
        may_connect: judges an address; tests allow their own.
    """

    def __init__(
        self,
        policy: MediaPolicy,
        *,
        resolve: Resolve = resolve_host,
        may_connect: Callable[[str], bool] = is_public,
    ) -> None:
        self._policy = policy
        self._resolve = resolve
        self._may_connect = may_connect
        self._tls = ssl.create_default_context()

    async def fetch(self, text: str) -> bytes:
        """The content behind the URL *text*.

        Raises:
            MediaError: the URL is bad or not allowed, or what is behind it cannot be had within the limits.
        """
        url = parse_media_url(text)
        if isinstance(url, InlineMedia):
            self._check_size(len(url.content))
            return url.content
        if isinstance(url, LocalMedia):
            return await asyncio.to_thread(self._read, url.path)
        try:
            return await asyncio.wait_for(self._get(url), self._policy.timeout_s)
        except asyncio.TimeoutError:
            raise MediaError(f"a media URL was not answered within {self._policy.timeout_s:g} s") from None

    async def _get(self, url: RemoteMedia) -> bytes:
        for _ in range(self._policy.max_redirects + 1):
            location, content = await self._request(url)
            if location is None:
                return content
            url = url.join(location)
        raise MediaError(f"a media URL redirects more than {self._policy.max_redirects} times")

    async def _request(self, url: RemoteMedia) -> tuple[str | None, bytes]:
        """One exchange: a redirect's target, or the content."""
        self._check_domain(url.host)
        address = await self._checked_address(url)
        backend = _FixedAddress(address)
        pool = httpcore.AsyncConnectionPool(ssl_context=self._tls, network_backend=backend, retries=0)
        target = httpcore.URL(
            scheme=b"https" if url.is_secure else b"http", host=url.host.encode(), port=url.port, target=url.target
        )
        headers = [
            (b"Host", url.authority),
            (b"User-Agent", b"antiphon"),
            (b"Accept", b"*/*"),
            (b"Accept-Encoding", b"identity"),
        ]
        try:
            async with pool, pool.stream("GET", target, headers=headers) as response:
                found = {name.lower(): value for name, value in response.headers}
                if response.status in _REDIRECTS and b"location" in found:
                    return found[b"location"].decode("latin-1"), b""
                if response.status != 200:
                    raise MediaError(f"a media URL was answered with HTTP status {response.status}")
                if found.get(b"content-encoding", b"identity").lower() != b"identity":
                    raise MediaError("a media URL was answered in compressed form, which was not asked for")
                return None, await self._body(response.aiter_stream())
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, ssl.SSLError, OSError):
            raise MediaError("a media URL cannot be fetched: the connection failed") from None

    async def _body(self, pieces: AsyncIterator[bytes]) -> bytes:
        content = bytearray()
        async for piece in pieces:
            content += piece
            self._check_size(len(content))
        return bytes(content)

    def _check_size(self, num_bytes: int) -> None:
        if num_bytes > self._policy.max_bytes:
            raise MediaError(f"a medium has more than {self._policy.max_bytes // 2**20} MiB, the most that is accepted")

    def _check_domain(self, host: str) -> None:
        domains = self._policy.domains
        if domains is None:
            return
        if not any(host == domain or (domain.startswith(".") and host.endswith(domain)) for domain in domains):
            raise MediaError("a media URL names a host that is not in --allowed-media-domains")

    async def _checked_address(self, url: RemoteMedia) -> str:
        try:
            addresses = await self._resolve(url.host, url.port)
        except (OSError, UnicodeError):
            raise MediaError("a media URL names a host that cannot be found") from None
        if not addresses or not all(self._may_connect(address) for address in addresses):
            raise MediaError("a media URL must lead to the public internet; this host does not")
        return addresses[0]

    def _read(self, path: Path) -> bytes:
        """One text for whatever is wrong: clients must not learn what exists."""
        folder = self._policy.local_folder
        if folder is None:
            raise MediaError(
                "file: URLs are not allowed here (the operator can allow a folder: --allowed-local-media-path)"
            )
        try:
            real = Path(os.path.realpath(path))
            if not real.is_relative_to(os.path.realpath(folder)):
                raise MediaError(_REFUSED_FILE)
            # Neither a link that appeared since nor a pipe that never answers.
            handle = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(handle, "rb") as file:
                if not stat.S_ISREG(os.fstat(handle).st_mode):
                    raise MediaError(_REFUSED_FILE)
                content = file.read(self._policy.max_bytes + 1)
        except (OSError, ValueError):
            raise MediaError(_REFUSED_FILE) from None
        self._check_size(len(content))
        return content


class _FixedAddress(httpcore.AsyncNetworkBackend):
    """Connects to the address that was checked, whatever host the request names. TLS still checks the host's name."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._backend = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,  # noqa: ARG002 - see the class
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        return await self._backend.connect_tcp(self._address, port, timeout, local_address, socket_options)

    async def sleep(self, seconds: float) -> None:
        await self._backend.sleep(seconds)
