"""The shipped pages: whatever one of them asks for is there, and can be had without a key."""

import re
from importlib.resources import files

import pytest
from starlette.routing import Route

from antiphon.serving.auth import OPEN_PATHS
from antiphon.serving.pages import CHAT_PAGES, LIVE_FACTS_PATH, LIVE_PAGES, live_routes

STATIC = files("antiphon.serving").joinpath("static")
USED = re.compile(r'(?:src|href)="([\w./-]+\.(?:js|css))"|from "\./([\w-]+\.js)"|"([\w-]+-worklet\.js)"')


def asked_by(name: str) -> set[str]:
    return {"/" + next(filter(None, found)) for found in USED.findall(STATIC.joinpath(name).read_text("utf-8"))}


@pytest.mark.parametrize("name", sorted({*LIVE_PAGES.values(), *CHAT_PAGES.values()}))
def test_what_a_file_asks_for_is_served(name: str) -> None:
    assert asked_by(name) <= {*LIVE_PAGES, *CHAT_PAGES}


def test_every_shipped_file_is_served() -> None:
    assert {entry.name for entry in STATIC.iterdir()} == {*LIVE_PAGES.values(), *CHAT_PAGES.values()}


def test_the_live_page_opens_without_a_key() -> None:
    assert {*LIVE_PAGES, LIVE_FACTS_PATH} <= OPEN_PATHS


def test_the_live_page_is_the_front_only_where_there_is_no_other() -> None:
    def paths(*, is_front: bool) -> set[str]:
        return {route.path for route in live_routes(is_front=is_front) if isinstance(route, Route)}

    assert paths(is_front=True) - paths(is_front=False) == {"/"}


def test_no_page_reaches_elsewhere() -> None:
    for name in {*LIVE_PAGES.values(), *CHAT_PAGES.values()}:
        text = STATIC.joinpath(name).read_text("utf-8")
        assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", text), name
