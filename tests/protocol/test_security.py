"""What a hostile client tries: other hosts, local files, doors without a key."""

import asyncio
import os
from pathlib import Path
from typing import Any

import httpx
import pytest

from antiphon.serving.media_fetch import MediaPolicy

Server = Any
KEY = {"Authorization": "Bearer secret"}


def ask(server: Server, url: str, field: str = "image_url") -> Any:
    if field == "ref_audio":
        return server.chat(ref_audio=url)
    return server.chat([{"type": field, field: {"url": url}}, {"type": "text", "text": "?"}], modalities=["text"])


REFUSALS = ("public internet", "cannot be found", "user or password", "cannot be parsed")
FIELDS = ("image_url", "audio_url", "video_url", "ref_audio")


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:1/x",
        "http://localhost:1/x",
        "http://2130706433:1/",
        "http://0177.0.0.1:1/",
        "http://0x7f.1:1/",
        "http://[::1]:1/",
        "http://[::ffff:127.0.0.1]:1/",
        "http://[::ffff:7f00:1]:1/",
        "http://0.0.0.0:1/",
        "http://169.254.169.254/latest/meta-data",
        "http://10.0.0.1/",
        "http://172.16.0.1/",
        "http://192.168.1.1/",
        "http://[fe80::1]/",
        "http://[fd00::1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://user:pass@127.0.0.1/",
        "HTTP://LOCALHOST:1/",
        "http://localhost.:1/",
    ],
)
def test_c104_addresses_inside_are_refused_before_any_connection(
    server: Server, url: str, field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_: object, **__: object) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr("httpcore.AnyIOBackend.connect_tcp", never)
    server.services = server.services.__class__(**{**server.services.__dict__, "fetcher": None})
    response = ask(server, url, field)
    assert response.status_code == 400
    message = server.error(response)["message"]
    assert any(reason in message for reason in REFUSALS)


@pytest.mark.parametrize("field", FIELDS)
def test_c106_local_files_are_refused_alike_whether_they_exist_or_not(
    server: Server, tmp_path: Path, field: str
) -> None:
    (tmp_path / "there.wav").write_bytes(b"x")
    os.mkfifo(tmp_path / "pipe")
    paths = [
        tmp_path / "there.wav",
        tmp_path / "absent.wav",
        tmp_path / "pipe",
        "/dev/zero",
        "/etc/passwd",
        "/etc/../etc/x",
    ]
    texts = {server.error(ask(server, f"file://{path}", field))["message"] for path in paths}
    assert len(texts) == 1
    assert "--allowed-local-media-path" in texts.pop()


def test_c106_below_the_allowed_folder_files_are_read_and_nothing_else(
    server: Server, tmp_path: Path, encode_image: Any
) -> None:
    folder = tmp_path / "media"
    folder.mkdir()
    (folder / "a b.png").write_bytes(encode_image())
    (tmp_path / "outside.png").write_bytes(encode_image())
    (folder / "link.png").symlink_to(tmp_path / "outside.png")
    os.mkfifo(folder / "pipe.png")
    server.configure(media=MediaPolicy(local_folder=folder))
    server.services = server.services.__class__(**{**server.services.__dict__, "fetcher": None})
    assert ask(server, f"file://{folder}/a%20b.png").status_code == 200
    bad = ["../outside.png", "link.png", "pipe.png", "absent.png", ".", "%2e%2e/outside.png", "a%00b.png"]
    texts = set()
    for name in bad:
        response = ask(server, f"file://{folder}/{name}")
        assert response.status_code == 400
        texts.add(server.error(response)["message"])
    assert len([text for text in texts if "names no file below" in text]) == 1
    assert str(tmp_path) not in "".join(texts)


PATHS = ["/v1/models", "/v1/models/omni", "/metrics", "/version", "/docs", "/docs.js", "/openapi.json", "/v1/realtime"]
ODD_PATHS = [
    "//v1/models",
    "/v1//models",
    "/v1%2fmodels",
    "/V1/MODELS",
    "/v1/models/",
    "/v1/models.",
    "/nothing",
    "/health/",
]


@pytest.mark.parametrize("path", [*PATHS, *ODD_PATHS])
def test_c108_every_door_asks_for_the_key(server: Server, path: str) -> None:
    server.configure(api_keys=("secret", "other"))
    for headers in (
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Basic secret"},
        {"Authorization": "secret"},
    ):
        response = server.get(path, headers=headers)
        assert response.status_code == 401
        assert server.error(response)["code"] == 401
    for key in ("secret", "other"):
        status = server.get(path, headers={"Authorization": f"Bearer {key}"}).status_code
        assert status == 200 if path in PATHS[:-1] else status != 401


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/audio/speech"])
def test_c108_the_key_is_asked_for_before_the_body_is_read(server: Server, path: str) -> None:
    server.configure(api_keys=("secret",))

    async def body() -> Any:
        raise AssertionError("the body was read")
        yield b""

    response = server.request("POST", path, content=body(), headers={"Content-Type": "application/json"})
    assert response.status_code == 401
    assert (
        server.request("POST", path, content=b"{", headers={**KEY, "Content-Type": "application/json"}).status_code
        == 400
    )


def test_the_page_and_the_probes_need_no_key(server: Server) -> None:
    server.configure(api_keys=("secret",))
    for path in ("/", "/app.js", "/style.css", "/health", "/health/live", "/health/ready", "/ping"):
        assert server.get(path).status_code == 200
    assert server.request("POST", "/ping").status_code == 401


def test_c108_a_websocket_without_the_key_is_refused_before_it_opens(server: Server) -> None:
    server.configure(api_keys=("secret",))

    def knock(headers: list[tuple[bytes, bytes]]) -> list[dict[str, Any]]:
        sent: list[dict[str, Any]] = []
        scope = {
            "type": "websocket",
            "path": "/v1/realtime",
            "headers": headers,
            "extensions": {"websocket.http.response": {}},
            "subprotocols": [],
        }

        async def receive() -> dict[str, Any]:
            return {"type": "websocket.connect"}

        async def send(message: Any) -> None:
            sent.append(message)

        asyncio.run(server.app(scope, receive, send))
        return sent

    assert knock([])[0]["status"] == 401
    assert knock([(b"sec-websocket-protocol", b"realtime, openai-insecure-api-key.wrong")])[0]["status"] == 401
    for header in (
        (b"authorization", b"Bearer secret"),
        (b"sec-websocket-protocol", b"realtime, openai-insecure-api-key.secret"),
    ):
        assert knock([header])[0].get("status") != 401


def test_a_preflight_needs_no_key_and_names_what_is_allowed(server: Server) -> None:
    server.configure(api_keys=("secret",))
    headers = {"Origin": "https://page.example", "Access-Control-Request-Method": "POST"}
    response = server.request("OPTIONS", "/v1/chat/completions", headers=headers)
    assert response.status_code == 200
    assert response.headers["access-control-allow-origin"] == "*"


def test_c112_replies_to_unknown_paths_and_methods_are_plain(server: Server) -> None:
    for method, path, status in (
        ("GET", "/v1/chat/completions", 405),
        ("POST", "/v1/completions", 404),
        ("PUT", "/x", 404),
    ):
        response: httpx.Response = server.request(method, path)
        assert response.status_code == status
        assert set(server.error(response)) == {"message", "type", "param", "code"}


def test_c112_an_error_of_ours_is_not_explained(server: Server) -> None:
    server.pipeline.refusal = RuntimeError("/work/secret.py line 5: 0x7f12")
    response = server.chat()
    assert response.status_code == 500
    assert server.error(response)["message"] == "The server failed to answer this request."
