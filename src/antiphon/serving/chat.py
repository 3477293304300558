"""`POST /v1/chat/completions`."""

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from antiphon.pipeline.async_events import events_of
from antiphon.pipeline.events import Aborted, AudioChunk, Failed, Finished, RequestEvent, TextDelta
from antiphon.serving.chat_reply import CollectedAnswer, whole_reply
from antiphon.serving.chat_request import ChatIntake, ChatPlan, new_request_id
from antiphon.serving.chat_stream import ChatStream, ReplyHead
from antiphon.serving.context import REQUEST_ID
from antiphon.serving.errors import UNAVAILABLE, HttpError, StageFailedError, error_document, problem_of
from antiphon.serving.http import read_json_body, while_connected
from antiphon.serving.port import Pipeline
from antiphon.serving.settings import ServeSettings
from antiphon.serving.sse import DONE, HEADERS, LiveResponse, event, json_event
from antiphon.serving.watch import RequestWatch
from antiphon.serving.watching import Watching
from antiphon.telemetry.logs import FIELDS
from antiphon.wire.chat import ChatRequest
from antiphon.wire.parse import parse
from antiphon.wire.reply import CompletionChunk, to_json

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ChatEndpoint:
    """Answers chat requests with *pipeline*."""

    pipeline: Pipeline
    intake: ChatIntake
    settings: ServeSettings
    watching: Watching

    async def __call__(self, request: Request) -> Response:
        body = await read_json_body(request, self.settings.max_body_bytes)
        wanted = parse(ChatRequest, body)
        name = new_request_id(wanted.request_id or getattr(request.state, REQUEST_ID))
        plan = await while_connected(request.receive, self.intake.plan(wanted, f"{name}-{secrets.token_hex(4)}"))
        if self.settings.logs_requests:
            _log.info("chat request", extra={FIELDS: {"prompt": plan.request.prompt.text[:2000]}})
        head = ReplyHead(id=name, created=int(time.time()), model=plan.model_name)
        watch = self.watching.watch(request, head.id, speaks=plan.wants_audio, is_streamed=plan.is_streamed)
        try:
            events = watched(events_of(self.pipeline.submit(plan.request)), watch)
            if not plan.is_streamed:
                return await while_connected(request.receive, self._whole(plan, head, events))
            # What fails before the first event still gets a status of its own.
            first = await while_connected(request.receive, first_event(events))
        except BaseException:
            watch.fail("client_disconnect")
            raise
        return LiveResponse(
            self._pieces(plan, head, first, events),
            media_type="text/event-stream",
            send_timeout_s=self.settings.send_timeout_s,
            headers=HEADERS,
        )

    async def _whole(self, plan: ChatPlan, head: ReplyHead, events: AsyncGenerator[RequestEvent, None]) -> Response:
        answer = CollectedAnswer()
        async with aclosing(events):
            async for item in events:
                if isinstance(item, AudioChunk):
                    answer.add(item)
                elif isinstance(item, Finished):
                    answer.finished = item
                elif not isinstance(item, TextDelta):
                    raise_end(item)
        reply = await asyncio.to_thread(
            whole_reply, plan, head, answer, has_prompt_details=self.settings.has_prompt_details
        )
        if self.settings.logs_outputs:
            _log.info("chat answer", extra={FIELDS: {"text": (reply.choices[0].message.content or "")[:2000]}})
        return Response(to_json(reply), media_type="application/json")

    async def _pieces(
        self, plan: ChatPlan, head: ReplyHead, first: RequestEvent, events: AsyncGenerator[RequestEvent, None]
    ) -> AsyncIterator[bytes]:
        stream = ChatStream(plan, head, has_prompt_details=self.settings.has_prompt_details)
        async with aclosing(events):
            try:
                yield _lines(stream.start())
                async for item in chain_first(first, events):
                    if isinstance(item, TextDelta):
                        yield _lines(stream.text(item))
                    elif isinstance(item, AudioChunk):
                        # Compressing takes milliseconds; plain samples are packed faster than a thread is woken.
                        is_packed = plan.form.container is None
                        yield _lines(stream.audio(item) if is_packed else await asyncio.to_thread(stream.audio, item))
                    elif isinstance(item, Finished):
                        yield _lines(stream.finish(item))
                    else:
                        raise_end(item)
            except Exception as error:  # noqa: BLE001 - the HTTP boundary: the status is sent, so the stream says it
                yield json_event(error_document(problem_of(error), head.id))
            yield DONE


async def watched(events: AsyncIterator[RequestEvent], watch: RequestWatch) -> AsyncGenerator[RequestEvent, None]:
    """The same events, seen by *watch*; leaving early means that the client has gone."""
    try:
        async for item in events:
            watch.see(item)
            yield item
    finally:
        watch.fail("client_disconnect")
        await events.aclose()  # type: ignore[attr-defined]  # an asynchronous generator


async def first_event(events: AsyncIterator[RequestEvent]) -> RequestEvent:
    """The first event. Raises what the pipeline failed with, if that came first."""
    first = await anext(events)
    if isinstance(first, (Failed, Aborted)):
        raise_end(first)
    return first


async def chain_first(first: RequestEvent, events: AsyncIterator[RequestEvent]) -> AsyncIterator[RequestEvent]:
    yield first
    if not isinstance(first, Finished):
        async for item in events:
            yield item


def raise_end(end: RequestEvent) -> None:
    """Raise what an end other than `Finished` stands for."""
    if isinstance(end, Failed):
        raise StageFailedError(end.error, end.stage)
    raise HttpError(UNAVAILABLE, "The request was ended by the server.", kind="ServiceUnavailableError")


def _lines(chunks: list[CompletionChunk]) -> bytes:
    return b"".join(event(to_json(chunk)) for chunk in chunks)
