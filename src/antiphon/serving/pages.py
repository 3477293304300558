"""The pages for people: the one at `/`, and the description of the interface. No build step, nothing from elsewhere."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from antiphon import __version__

_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
_HEADERS = {
    "Cache-Control": "no-cache",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data: blob:; media-src 'self' data: blob:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
}
PAGES = {"/": "index.html", "/app.js": "app.js", "/style.css": "style.css", "/docs": "docs.html", "/docs.js": "docs.js"}


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


def version_document(*, model: str, is_tiny: bool) -> dict[str, object]:
    """What `/version` says; the page reads it to know whose voice it will hear."""
    return {"version": __version__, "model": model, "is_tiny": is_tiny}
