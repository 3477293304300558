"""The pages for people: the one at `/`, and the description of the interface. No build step, nothing from elsewhere."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from antiphon import __version__

_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
_HEADERS = {
    "Cache-Control": "no-cache",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data: blob:; media-src 'self' data: blob:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
}
# Path → file. The live page has parts of its own, and worklets that the browser loads by address.
_LIVE_FILES = (
    "live.css",
    "live.js",
    "live-audio.js",
    "live-camera.js",
    "live-device.js",
    "live-figures.js",
    "live-loudness.js",
    "live-panel.js",
    "live-replies.js",
    "live-session.js",
    "live-transcript.js",
    "capture-worklet.js",
    "playback-worklet.js",
    "resample.js",
)
LIVE_PAGES = {"/live": "live.html", "/style.css": "style.css", **{f"/{name}": name for name in _LIVE_FILES}}
CHAT_PAGES = {"/": "index.html", "/app.js": "app.js", "/docs": "docs.html", "/docs.js": "docs.js"}
LIVE_FACTS_PATH = "/live.json"


@dataclass(frozen=True)
class PageEndpoint:
    """One static file, read at start."""

    content: bytes
    media_type: str

    async def __call__(self, _request: Request) -> Response:
        return Response(self.content, media_type=self.media_type, headers=_HEADERS)


def load_page(name: str) -> PageEndpoint:
    """The shipped file *name*."""
    content = files("antiphon.serving").joinpath(f"static/{name}").read_bytes()
    return PageEndpoint(content, _TYPES[name[name.rindex(".") :]])


@dataclass(frozen=True)
class DocumentEndpoint:
    """A JSON document that does not change."""

    document: Mapping[str, object]

    async def __call__(self, _request: Request) -> Response:
        return JSONResponse(self.document)


def chat_routes() -> list[BaseRoute]:
    """The page at `/` and the description of the interface."""
    return [Route(path, load_page(name).__call__) for path, name in CHAT_PAGES.items()]


def live_routes(
    *, is_tiny: bool = False, is_scripted: bool = False, has_chat: bool = False, is_front: bool = False
) -> list[BaseRoute]:
    """The live page, and what it says about who answers. *is_front*: it also is the page at `/`."""
    facts = DocumentEndpoint({"is_tiny": is_tiny, "is_scripted": is_scripted, "has_chat": has_chat})
    paths = {**LIVE_PAGES, **({"/": LIVE_PAGES["/live"]} if is_front else {})}
    return [
        Route(LIVE_FACTS_PATH, facts.__call__),
        *(Route(path, load_page(name).__call__) for path, name in paths.items()),
    ]


def version_document(*, model: str, is_tiny: bool, facts: Mapping[str, object]) -> dict[str, object]:
    """What `/version` says; the page reads it to know whose voice it will hear, `bench serve` keeps all of it."""
    return {"version": __version__, "model": model, "is_tiny": is_tiny, **facts}
