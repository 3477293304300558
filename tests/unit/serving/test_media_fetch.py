import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from antiphon.core.errors import MediaError
from antiphon.serving.media_fetch import MediaFetcher, MediaPolicy

Answer = Callable[[str], bytes]


class Site:
    """A small HTTP server on this machine; every host name resolves to it."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.asked: list[str] = []
        self.resolved: list[str] = []
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.asked.append(head)
        try:
            writer.write(self._answer(head.split(" ")[1]))
            await writer.drain()
        except ConnectionError:
            pass
        writer.close()

    async def resolve(self, host: str, port: int) -> list[str]:
        self.resolved.append(host)
        return ["127.0.0.1"]


def reply(body: bytes = b"content", status: str = "200 OK", **headers: str) -> bytes:
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status}\r\n{lines}Connection: close\r\n\r\n".encode() + body


def fetch(
    answer: Answer, path: str = "/x", *, may_connect: Callable[[str], bool] = lambda _: True, **policy: Any
) -> tuple[bytes, Site]:
    """What a fetcher gets from a site that answers each path with *answer*."""
    site = Site(answer)

    async def run() -> bytes:
        server = await asyncio.start_server(site.serve, "127.0.0.1", 0)
        site.port = server.sockets[0].getsockname()[1]
        async with server:
            fetcher = MediaFetcher(MediaPolicy(**policy), resolve=site.resolve, may_connect=may_connect)
            return await fetcher.fetch(path if ":" in path else f"http://media.example:{site.port}{path}")

    return asyncio.run(run()), site


def test_the_content_comes_from_the_checked_address() -> None:
    content, site = fetch(lambda path: reply(path.encode()), "/a?b=c")
    assert content == b"/a?b=c"
    assert site.resolved == ["media.example"]
    assert f"Host: media.example:{site.port}" in site.asked[0]
    assert "Accept-Encoding: identity" in site.asked[0]


def test_c104_the_name_is_resolved_once_for_each_connection_and_every_address_is_checked() -> None:
    checked: list[str] = []

    def may_connect(address: str) -> bool:
        checked.append(address)
        return len(checked) < 2

    with pytest.raises(MediaError, match="public internet"):
        fetch(lambda _: reply(b"", "302 Found", Location="http://other.example/"), may_connect=may_connect)
    assert checked == ["127.0.0.1", "127.0.0.1"]


def test_c104_one_private_address_among_public_ones_is_enough_to_refuse() -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return ["1.1.1.1", "10.0.0.1"]

    with pytest.raises(MediaError, match="public internet"):
        asyncio.run(MediaFetcher(MediaPolicy(), resolve=resolve).fetch("http://a.example/"))


def test_redirects_are_followed_a_few_times() -> None:
    def answer(path: str) -> bytes:
        steps = int(path[1:])
        return reply(b"there") if steps == 0 else reply(b"", "307 Temporary Redirect", Location=f"/{steps - 1}")

    assert fetch(answer, "/3")[0] == b"there"
    with pytest.raises(MediaError, match="redirects more than 3 times"):
        fetch(answer, "/4")
    with pytest.raises(MediaError, match="not http or https"):
        fetch(lambda _: reply(b"", "301 Moved", Location="file:///etc/passwd"))


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (reply(b"x" * 3_000_000), "more than 1 MiB"),
        (reply(b"x", Content_Encoding="gzip"), "compressed"),
        (reply(b"x", "404 Not Found"), "status 404"),
        (reply(b"x", "302 Found"), "status 302"),
        (b"nonsense\r\n\r\n", "connection failed"),
        (b"", "connection failed"),
        (reply(b"short", Content_Length="10"), "connection failed"),
    ],
)
def test_answers_that_cannot_be_used(answer: bytes, reason: str) -> None:
    with pytest.raises(MediaError, match=reason):
        fetch(lambda _: answer, max_bytes=2**20)


def test_a_slow_site_is_given_up() -> None:
    async def resolve(host: str, port: int) -> list[str]:
        await asyncio.sleep(10)
        return []

    fetcher = MediaFetcher(MediaPolicy(timeout_s=0.05), resolve=resolve)
    with pytest.raises(MediaError, match="was not answered within"):
        asyncio.run(fetcher.fetch("http://a.example/"))


@pytest.mark.parametrize(
    ("domains", "is_allowed"),
    [
        (None, True),
        ((), False),
        (("media.example",), True),
        ((".example",), True),
        (("example",), False),
        (("a.example",), False),
    ],
)
def test_domains_can_be_listed(domains: tuple[str, ...] | None, is_allowed: bool) -> None:
    if is_allowed:
        assert fetch(lambda _: reply(), domains=domains)[0] == b"content"
        return
    with pytest.raises(MediaError, match="--allowed-media-domains"):
        fetch(lambda _: reply(), domains=domains)


@contextmanager
def local(folder: Path | None, **policy: Any) -> Iterator[Callable[[str], Awaitable[bytes]]]:
    yield MediaFetcher(MediaPolicy(local_folder=folder, **policy)).fetch


def test_a_local_file_is_read_within_the_limit(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 100)
    with local(tmp_path) as read:
        assert asyncio.run(read(f"file://{tmp_path}/a")) == b"x" * 100
    with local(tmp_path, max_bytes=99) as read, pytest.raises(MediaError, match="more than"):
        asyncio.run(read(f"file://{tmp_path}/a"))
    with local(None) as read, pytest.raises(MediaError, match="not allowed"):
        asyncio.run(read(f"file://{tmp_path}/a"))


def test_inline_media_have_the_same_limit() -> None:
    with local(None, max_bytes=2) as read, pytest.raises(MediaError, match="more than"):
        asyncio.run(read("data:,abc"))
