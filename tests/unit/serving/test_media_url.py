from pathlib import Path

import pytest

from antiphon.core.errors import MediaError
from antiphon.serving.media_url import InlineMedia, LocalMedia, RemoteMedia, decode_base64, parse_media_url


def test_inline_media_are_decoded() -> None:
    assert parse_media_url("data:image/png;base64,aGk=") == InlineMedia(b"hi")
    assert parse_media_url("DATA:;Base64,aGk") == InlineMedia(b"hi")
    assert parse_media_url("data:text/plain,a%20b") == InlineMedia(b"a b")


def test_a_remote_url_is_taken_apart_once() -> None:
    url = parse_media_url("HTTPS://Example.ORG:8443/a/b?c=d#e")
    assert url == RemoteMedia(True, "example.org", 8443, b"/a/b?c=d", b"example.org:8443")
    assert parse_media_url("http://[::1]") == RemoteMedia(False, "::1", 80, b"/", b"[::1]")
    punycode = parse_media_url("http://bücher.example/")
    assert isinstance(punycode, RemoteMedia)
    assert punycode.host == "xn--bcher-kva.example"


def test_the_target_of_a_redirect_is_read_by_the_same_parser() -> None:
    url = parse_media_url("https://a.example/x/y?z")
    assert isinstance(url, RemoteMedia)
    assert url.join("../q") == RemoteMedia(True, "a.example", 443, b"/q", b"a.example")
    assert url.join("http://[::1]:81/").host == "::1"
    for bad in ("file:///etc/passwd", "data:,x", "http://u:p@b.example/", "gopher://b.example/", "http://"):
        with pytest.raises(MediaError):
            url.join(bad)


@pytest.mark.parametrize("text", ["file:///a/b%20c", "file:/a/b c", "file://localhost/a/b c", "FILE:///a/b c"])
def test_a_local_path_is_absolute_and_decoded_once(text: str) -> None:
    assert parse_media_url(text) == LocalMedia(Path("/a/b c"))


@pytest.mark.parametrize(
    "text",
    [
        *("", "nothing", "/etc/passwd", "http:", "http://", "http://a:b@c/", "http://a b/", "http://[::1", "ftp://a/b"),
        *("file:a", "file://host/a", "file:///a%00b", "data:nothing", "data:;base64,@@", "http://a:99999/"),
        "http://a/" + "x" * 10_000,
    ],
)
def test_what_is_no_media_url_is_refused(text: str) -> None:
    with pytest.raises(MediaError):
        parse_media_url(text)


def test_base64_may_lack_padding_and_hold_line_breaks_but_nothing_else() -> None:
    assert decode_base64("aG\r\nk", "x") == b"hi"
    for bad in ("aG!k", "a", "ä"):
        with pytest.raises(MediaError, match="x is not valid base64"):
            decode_base64(bad, "x")
