"""Puts the server together: routes, layers, and the parts behind them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import BaseRoute, Route

from antiphon.serving.auth import RequireKey
from antiphon.serving.chat import ChatEndpoint
from antiphon.serving.chat_request import ChatIntake
from antiphon.serving.context import RequestContext
from antiphon.serving.conversation import ConversationReader, DecodePool
from antiphon.serving.health import HealthEndpoints
from antiphon.serving.http import answer_http_exception, answered
from antiphon.serving.lifecycle import Lifecycle
from antiphon.serving.media_fetch import MediaFetcher
from antiphon.serving.metrics import MetricsEndpoint
from antiphon.serving.models import ModelEndpoints
from antiphon.serving.openapi import openapi_document
from antiphon.serving.pages import DocumentEndpoint, chat_routes, live_routes, version_document
from antiphon.serving.port import Pipeline, Voices
from antiphon.serving.realtime.routes import realtime_routes
from antiphon.serving.realtime.service import RealtimeService
from antiphon.serving.served_model import ServedModel
from antiphon.serving.settings import CorsSettings, ServeSettings
from antiphon.serving.speech import SpeechEndpoint
from antiphon.serving.voices import VoiceReader
from antiphon.serving.watching import Watching
from antiphon.telemetry.families import Families
from antiphon.telemetry.traces import RequestTracing


@dataclass(frozen=True, kw_only=True)
class Services:
    """What the routes stand on. Tests put fakes in."""

    pipeline: Pipeline
    model: ServedModel
    voices: Voices
    settings: ServeSettings = field(default_factory=ServeSettings)
    default_voice: Path | None = None  # the recording of the default voice
    fetcher: MediaFetcher | None = None
    realtime: RealtimeService | None = None
    tracing: RequestTracing | None = None
    facts: Mapping[str, object] = field(default_factory=dict)  # what `/version` says beside the version
    lifecycle: Lifecycle = field(default_factory=Lifecycle)


def create_app(services: Services) -> Starlette:
    """The ASGI application. It closes the pipeline when it ends."""
    settings, model = services.settings, services.model
    families = Families(model.names[0]) if settings.has_metrics else None
    if families is not None:
        families.watch(services.pipeline.counters, partial(_gauges, services))
        if services.realtime is not None:
            services.realtime.watch(families)
    pool = DecodePool()
    middleware = [
        Middleware(RequestContext, lifecycle=services.lifecycle),
        *_cors(settings.cors),
        *([Middleware(RequireKey, keys=settings.api_keys)] if settings.api_keys else []),
    ]
    app = Starlette(
        routes=_routes(services, pool, families),
        middleware=middleware,
        exception_handlers={HTTPException: answer_http_exception},
        lifespan=_lifespan(services, pool),
    )
    # A redirect would be built from the Host header, and open a second spelling of every path.
    app.router.redirect_slashes = False
    return app


def _routes(services: Services, pool: DecodePool, families: Families | None) -> list[BaseRoute]:
    settings, model, pipeline = services.settings, services.model, services.pipeline
    fetcher = services.fetcher or MediaFetcher(settings.media)
    voices = VoiceReader(fetcher, pool, services.voices)
    intake = ChatIntake(model, settings, ConversationReader(fetcher, pool), voices, pool)
    watching = Watching(model=model.names[0], families=families, tracing=services.tracing)
    chat = ChatEndpoint(pipeline, intake, settings, watching)
    speech = SpeechEndpoint(pipeline, model, settings, voices, pool, watching, services.default_voice)
    models, health = ModelEndpoints(model), HealthEndpoints(pipeline, services.lifecycle)
    version = DocumentEndpoint(version_document(model=model.names[0], is_tiny=model.is_tiny, facts=services.facts))
    routes = [
        Route("/v1/chat/completions", answered(chat), methods=["POST"]),
        Route("/v1/audio/speech", answered(speech), methods=["POST"]),
        Route("/v1/models", models.list),
        Route("/v1/models/{name:path}", answered(models.one)),
        Route("/health", health.health),
        Route("/health/live", health.live),
        Route("/health/ready", health.ready),
        Route("/ping", health.ping, methods=["GET", "POST"]),
        Route("/version", version.__call__),
        Route("/openapi.json", DocumentEndpoint(openapi_document(has_keys=bool(settings.api_keys))).__call__),
        *chat_routes(),
        *live_routes(is_tiny=model.is_tiny, has_chat=True),
    ]
    if families is not None:
        routes.append(Route("/metrics", MetricsEndpoint(families, pipeline, partial(_refresh_live, services)).__call__))
    live = [] if services.realtime is None else realtime_routes(services.realtime.hub)
    return [*routes, *live]


def _gauges(services: Services) -> Mapping[str, float]:
    live = {} if services.realtime is None else services.realtime.gauges()
    return {**services.pipeline.gauges(), **live}


def _refresh_live(services: Services, families: Families) -> None:
    if services.realtime is not None:
        services.realtime.refresh(families)


def _cors(settings: CorsSettings) -> list[Middleware]:
    """In front of the key check: a browser's preflight brings no key."""
    if not settings.origins:
        return []
    return [
        Middleware(
            CORSMiddleware,
            allow_origins=settings.origins,
            allow_methods=settings.methods,
            allow_headers=settings.headers,
            allow_credentials=settings.has_credentials,
            expose_headers=("X-Request-Id", "X-Sample-Rate"),
        )
    ]


def _lifespan(services: Services, pool: DecodePool) -> Callable[[Starlette], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        if services.realtime is not None:
            services.lifecycle.drains_too(services.realtime.drain)
        yield
        if services.realtime is not None:
            await services.realtime.drain(0)
            await asyncio.to_thread(services.realtime.engine.close)
        pool.close()
        await asyncio.to_thread(services.pipeline.close)
        if services.tracing is not None:
            await asyncio.to_thread(services.tracing.close)

    return lifespan
