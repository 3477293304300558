"""Sends one request over HTTP and notes when each piece of its answer came.

aiohttp, not httpx: what the client spends is measured as latency, and httpx spends milliseconds of it on each request
when many are under way (benchmarks/http_client_cost.py).
"""

import asyncio
import json
from collections.abc import Mapping

import aiohttp

from antiphon.bench.chat_stream import ChatStream
from antiphon.bench.load import Clock
from antiphon.bench.settings import Backend, Target
from antiphon.bench.speech_stream import SpeechStream
from antiphon.bench.timeline import Answer, RequestRecord

MAX_RETRIES = 3
RETRY_DELAY_S = 0.1
_MAX_ERROR_CHARS = 400
_READ_BUFFER_BYTES = 4 << 20  # an audio event is about 64 kB; small buffers pause the socket
# The connection broke or was never made: the only failures that are tried again.
_TRANSPORT_ERRORS = (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError)


def open_session(target: Target, timeout_s: float) -> aiohttp.ClientSession:
    """A session for one run: any number of connections, none of them through a proxy. To be used in `async with`."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        timeout=aiohttp.ClientTimeout(total=timeout_s, connect=None),
        headers={"Accept": "text/event-stream, */*", **target.headers},
        read_bufsize=_READ_BUFFER_BYTES,
    )


async def send(
    session: aiohttp.ClientSession,
    target: Target,
    backend: Backend,
    body: Mapping[str, object],
    *,
    prompt_len_tokens: int,
    due_s: float,
    clock: Clock,
    keeps_audio: bool = False,
) -> RequestRecord:
    """Send *body* and read its whole answer. A failure of any kind is a record with an error, never an exception.

    The request is tried again, from the start and with a new t0, when the connection breaks.
    """
    payload = json.dumps(body, ensure_ascii=False).encode()
    num_retries = 0
    while True:
        started_s = clock()
        try:
            answer = await _exchange(session, target, backend, payload, started_s, clock, keeps_audio=keeps_audio)
        except asyncio.TimeoutError:  # before the others: aiohttp's time-outs are connection errors too
            answer = Answer(e2e_s=clock() - started_s, error="timed out")
        except _TRANSPORT_ERRORS as error:
            if num_retries < MAX_RETRIES:
                num_retries += 1
                await asyncio.sleep(RETRY_DELAY_S)
                continue
            answer = Answer(e2e_s=clock() - started_s, error=f"{type(error).__name__}: {error}"[:_MAX_ERROR_CHARS])
        except aiohttp.ClientError as error:
            answer = Answer(e2e_s=clock() - started_s, error=f"{type(error).__name__}: {error}"[:_MAX_ERROR_CHARS])
        return RequestRecord(
            started_s=started_s,
            due_s=due_s,
            prompt_len_tokens=prompt_len_tokens,
            answer=answer,
            num_retries=num_retries,
        )


async def _exchange(
    session: aiohttp.ClientSession,
    target: Target,
    backend: Backend,
    payload: bytes,
    started_s: float,
    clock: Clock,
    *,
    keeps_audio: bool,
) -> Answer:
    headers = {"Content-Type": "application/json"}
    async with session.post(target.url, data=payload, headers=headers) as response:
        if response.status != 200:
            text = (await response.text(errors="replace"))[:_MAX_ERROR_CHARS]
            return Answer(e2e_s=clock() - started_s, error=f"HTTP {response.status}: {text}")
        is_events = response.content_type == "text/event-stream"
        if backend is not Backend.SPEECH and not is_events:
            return Answer(
                e2e_s=clock() - started_s, error=f"the answer is {response.content_type}, not a stream of events"
            )
        reader = (
            SpeechStream(is_events=is_events, keeps_audio=keeps_audio)
            if backend is Backend.SPEECH
            else ChatStream(keeps_audio=keeps_audio)
        )
        async for piece in response.content.iter_any():
            reader.feed(piece, clock() - started_s)
        return reader.close()
