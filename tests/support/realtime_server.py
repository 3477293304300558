"""Scripted Realtime servers for tests, one for each profile of the conformance cases."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import uvicorn

from antiphon.client.conformance.target import Target
from antiphon.realtime.limits import Limits
from antiphon.realtime.script import DEFAULT_SCRIPT, Answer, Piece, Script
from antiphon.serving.realtime.hub import Hub
from antiphon.serving.realtime.routes import UVICORN_OPTIONS
from antiphon.serving.realtime.scripted_app import scripted_app, scripted_hub, scripted_settings
from antiphon.serving.realtime.settings import RealtimeSettings, Timeouts

SHORT_S = 1.0
_LONG = tuple(Piece(f"word{index} ") for index in range(400))
SCRIPTS = {
    "stalled": Script(answers=DEFAULT_SCRIPT.answers, stall_ms=60_000),
    "endless": Script(answers=(Answer(pieces=(Piece("on and on "),), pieces_per_unit=1, ends=False),)),
    "failing": Script(
        answers=(Answer(pieces=(Piece("This "),), fails="talker_context_exceeded"), *DEFAULT_SCRIPT.answers)
    ),
    "dying": Script(answers=(Answer(pieces=(Piece("This "),), dies=True),)),
    "small-output": Script(answers=(Answer(pieces=_LONG), *DEFAULT_SCRIPT.answers), gap_ms=5),
}


def settings_of(profile: str) -> RealtimeSettings:
    plain = scripted_settings()
    if profile == "short":
        limits = Limits(disconnect_grace_s=SHORT_S, idle_ttl_s=SHORT_S)
        return replace(plain, limits=limits, timeouts=Timeouts(first_message_s=SHORT_S))
    if profile == "small-slack":
        return replace(plain, limits=Limits(playback_slack_s=SHORT_S))
    if profile == "small-queue":
        return replace(plain, limits=Limits(max_sessions=2, queue_wait_s=SHORT_S))
    if profile == "endless":
        return replace(plain, limits=Limits(continuation_limit_auto=3))
    if profile == "no-vad":
        return replace(plain, scorer_source=None)
    if profile == "small-journal":
        return replace(plain, limits=Limits(resume_replay_max_bytes_per_session=64 * 1024))
    if profile == "small-output":
        return replace(plain, limits=Limits(max_pending_output_bytes=512 * 1024))
    if profile == "keyed":
        return replace(plain, api_keys=("secret",), allowed_origins=("https://good.example",))
    return plain


@asynccontextmanager
async def running(hub: Hub, **changes: float) -> AsyncIterator[str]:
    """Serve *hub*, with *changes* of uvicorn's options; gives the address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = {**UVICORN_OPTIONS, **changes}
    config = uvicorn.Config(scripted_app(hub), host="127.0.0.1", port=port, log_level="warning", **options)
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield f"ws://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await task


@asynccontextmanager
async def target_of(profile: str) -> AsyncIterator[tuple[Target, Hub]]:
    hub = scripted_hub(SCRIPTS.get(profile, DEFAULT_SCRIPT), settings_of(profile))
    async with running(hub) as url:
        limits, timeouts = hub.settings.limits, hub.settings.timeouts
        target = Target(
            url=url,
            profile=profile,
            key="secret" if profile == "keyed" else None,
            max_sessions=limits.max_sessions,
            first_message_s=timeouts.first_message_s,
            idle_s=limits.idle_ttl_s or 0.0,
            grace_s=limits.disconnect_grace_s,
            playback_slack_s=limits.playback_slack_s,
            queue_wait_s=limits.queue_wait_s,
        )
        yield target, hub
