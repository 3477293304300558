"""Asks a server whether it is ready, what it serves, what it says about itself, and what it has counted."""

import asyncio
import json
import re
from collections.abc import Mapping

import aiohttp

from antiphon.bench.load import Clock
from antiphon.core.errors import AntiphonError, ConfigError

_RETRY_S = 1.0
_PROBE_TIMEOUT = aiohttp.ClientTimeout(total=10)
_NETWORK_ERRORS = (aiohttp.ClientError, asyncio.TimeoutError)
# One sample of a Prometheus page: name, labels, value.
_SAMPLE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*(?:\{[^}]*\})?) ([-+0-9.eE]+)$", re.MULTILINE)
_COUNTED_PREFIXES = ("antiphon", "vllm_omni:", "vllm:")


class ServerError(AntiphonError):
    """The server under test cannot be reached or refuses what every request needs."""

    code = "server_unavailable"


async def wait_until_ready(session: aiohttp.ClientSession, base_url: str, *, timeout_s: float, clock: Clock) -> None:
    """Ask `/health`, or `/v1/models` where there is none, until the server answers; at once with *timeout_s* 0.

    Raises:
        ServerError: it does not answer in time.
    """
    end_s = clock() + timeout_s
    while True:
        reason = await _not_ready(session, base_url)
        if reason is None:
            return
        if clock() >= end_s:
            raise ServerError(f"{base_url} is not ready: {reason}")
        await asyncio.sleep(_RETRY_S)


async def find_model(session: aiohttp.ClientSession, base_url: str) -> str:
    """The first model that the server lists.

    Raises:
        ConfigError: it lists none.
    """
    models = await _get_json(session, f"{base_url}/v1/models")
    cards = models.get("data")
    for card in cards if isinstance(cards, list) else []:
        if isinstance(card, dict) and isinstance(card.get("id"), str):
            return str(card["id"])
    raise ConfigError(f"{base_url}/v1/models lists no model; name it with --model")


async def read_facts(session: aiohttp.ClientSession, base_url: str) -> dict[str, object]:
    """What the server tells at `/version`: its build and, if it says so, its resolved switches."""
    found = await _get_json(session, f"{base_url}/version")
    return {"version": found} if found else {}


async def read_counters(session: aiohttp.ClientSession, base_url: str) -> dict[str, float]:
    """The counters (`…_total`) of `/metrics` that are the engine's; empty if there is no such page."""
    try:
        async with session.get(f"{base_url}/metrics", timeout=_PROBE_TIMEOUT) as response:
            text = await response.text(errors="replace") if response.status == 200 else ""
    except _NETWORK_ERRORS:
        return {}
    return {
        name: float(value)
        for name, value in _SAMPLE.findall(text)
        if name.startswith(_COUNTED_PREFIXES) and name.split("{")[0].endswith("_total")
    }


def counted_between(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """By how much each counter rose; those that did not move are left out."""
    rises = {name: value - before.get(name, 0.0) for name, value in after.items()}
    return {name: rise for name, rise in rises.items() if rise}


async def _not_ready(session: aiohttp.ClientSession, base_url: str) -> str | None:
    reason = "no answer"
    for path in ("/health", "/v1/models"):
        try:
            async with session.get(base_url + path, timeout=_PROBE_TIMEOUT) as response:
                if response.status < 400:
                    return None
                reason = f"{path} answers {response.status}"
                if response.status == 401:
                    raise ServerError(f"{base_url}: {path} answers 401; set OPENAI_API_KEY")
                if response.status == 503:
                    return reason
        except _NETWORK_ERRORS as error:
            return str(error) or type(error).__name__
    return reason


async def _get_json(session: aiohttp.ClientSession, url: str) -> dict[str, object]:
    try:
        async with session.get(url, timeout=_PROBE_TIMEOUT) as response:
            if response.status != 200:
                return {}
            found = json.loads(await response.read())
    except (*_NETWORK_ERRORS, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
