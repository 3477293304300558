"""The one parser of media URLs: what it returns is what is checked, and what is checked is what is used."""

import binascii
import re
from base64 import b64decode
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote_to_bytes

import httpx

from antiphon.core.errors import MediaError

MAX_URL_CHARS = 8_192  # of anything but data:
_HOST = re.compile(r"[a-z0-9._-]{1,253}|[0-9a-f:.]+")  # a name in ASCII, or an address


@dataclass(frozen=True)
class InlineMedia:
    """The content of a `data:` URL."""

    content: bytes


@dataclass(frozen=True)
class RemoteMedia:
    """Where to fetch from. `host` is lower case ASCII, without brackets."""

    is_secure: bool
    host: str
    port: int
    target: bytes  # path and query
    authority: bytes  # for the Host header

    def join(self, location: str) -> "RemoteMedia":
        """The URL a redirect names, read by the same parser."""
        scheme = "https" if self.is_secure else "http"
        base = httpx.URL(scheme=scheme, host=self.host, port=self.port, raw_path=self.target)
        try:
            joined = str(base.join(location))
        except httpx.InvalidURL:
            raise MediaError("the media URL redirects to something that is no URL") from None
        parsed = parse_media_url(joined)
        if not isinstance(parsed, RemoteMedia):
            raise MediaError("the media URL redirects to something that is not http or https")
        return parsed


@dataclass(frozen=True)
class LocalMedia:
    """A path that a `file:` URL names."""

    path: Path


MediaUrl = InlineMedia | RemoteMedia | LocalMedia


def parse_media_url(text: str) -> MediaUrl:
    """Read *text*.

    Raises:
        MediaError: another scheme, credentials in it, bad base64, or no URL at all.
    """
    scheme, colon, rest = text.strip().partition(":")
    scheme = scheme.lower()
    if not colon:
        raise MediaError("a media URL must start with data:, http:, https: or file:")
    if scheme == "data":
        return InlineMedia(_data(rest))
    if len(text) > MAX_URL_CHARS:
        raise MediaError(f"a media URL has {len(text)} characters; at most {MAX_URL_CHARS} are accepted")
    if scheme == "file":
        return LocalMedia(_path(rest))
    if scheme in ("http", "https"):
        return _remote(text.strip())
    raise MediaError(f"a media URL has the scheme {scheme[:16]!r}; data:, http:, https: and file: are known")


def decode_base64(text: str, what: str) -> bytes:
    """Bytes of standard base64; line breaks are allowed. Raises MediaError about *what*."""
    packed = text.encode("ascii", "replace").translate(None, b"\r\n ")
    try:
        return b64decode(packed + b"=" * (-len(packed) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise MediaError(f"{what} is not valid base64") from None


def _data(rest: str) -> bytes:
    header, comma, body = rest.partition(",")
    if not comma:
        raise MediaError("a data: URL needs a comma in front of its content")
    if header.lower().endswith(";base64"):
        return decode_base64(body, "the content of a data: URL")
    return unquote_to_bytes(body)


def _path(rest: str) -> Path:
    if rest.startswith("//"):
        host, slash, tail = rest[2:].partition("/")
        if host.lower() not in ("", "localhost") or not slash:
            raise MediaError("a file: URL must name an absolute path of this machine (file:///…)")
        rest = f"/{tail}"
    path = unquote_to_bytes(rest)
    if not path.startswith(b"/") or b"\0" in path:
        raise MediaError("a file: URL must name an absolute path of this machine (file:///…)")
    return Path(path.decode("utf-8", "surrogateescape"))


def _remote(text: str) -> RemoteMedia:
    try:
        url = httpx.URL(text)
        host = url.raw_host.decode("ascii").lower()
        port = url.port or (443 if url.scheme == "https" else 80)
    except (httpx.InvalidURL, ValueError, UnicodeError):
        raise MediaError("a media URL cannot be parsed") from None
    if not host or url.userinfo:
        raise MediaError("a media URL must name a host, and no user or password")
    bare = host.strip("[]")
    if not _HOST.fullmatch(bare) or not 1 <= port <= 65_535:
        raise MediaError("a media URL cannot be parsed")
    return RemoteMedia(url.scheme == "https", bare, port, url.raw_path or b"/", url.netloc)
