"""The full Realtime protocol without a model: an application for client authors, and for our own tests."""

from dataclasses import replace

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route, request_response

from antiphon.realtime.script import DEFAULT_SCRIPT, Script
from antiphon.realtime.vad import LoudnessScorer
from antiphon.realtime.voice import VoiceClip
from antiphon.serving.auth import RequireKey
from antiphon.serving.pages import live_routes
from antiphon.serving.realtime.hub import Hub
from antiphon.serving.realtime.routes import realtime_hub, realtime_routes
from antiphon.serving.realtime.scripted_engine import ScriptedEngine
from antiphon.serving.realtime.settings import RealtimeSettings

# A scripted model has one voice whatever is asked for; it only must not be missing.
SCRIPTED_VOICE = VoiceClip(b"scripted")


def scripted_settings() -> RealtimeSettings:
    """As a scripted server has them: loud is speech, and a voice is there."""
    plain = RealtimeSettings()
    return replace(plain, defaults=replace(plain.defaults, reference=SCRIPTED_VOICE), scorer_source=LoudnessScorer)


def scripted_hub(script: Script = DEFAULT_SCRIPT, settings: RealtimeSettings | None = None) -> Hub:
    """Call it on the event loop."""
    return realtime_hub(ScriptedEngine(script), settings or scripted_settings())


def scripted_app(hub: Hub) -> Starlette:
    """The Realtime routes, `/health` and `/v1/models`, which clients of the protocol look at, and the live page."""

    async def health(_: Request) -> JSONResponse:
        return JSONResponse({"status": "ok"}, 200 if hub.is_warm.is_set() else 503)

    async def models(_: Request) -> JSONResponse:
        return JSONResponse({"object": "list", "data": [{"id": ScriptedEngine.model, "object": "model"}]})

    pages = live_routes(is_scripted=True, is_front=True)
    keys = hub.settings.api_keys
    listing = RequireKey(request_response(models), keys) if keys else models
    return Starlette(routes=[Route("/health", health), Route("/v1/models", listing), *realtime_routes(hub), *pages])
