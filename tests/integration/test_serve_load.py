"""Sixty mixed clients at once, a third of which leave early: nothing is left behind."""

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch

from antiphon.config.load import load_deploy
from antiphon.pipeline.build import build_omni_model
from antiphon.pipeline.local_engine import LocalEngine
from antiphon.serving.app import Services, create_app
from antiphon.serving.engine_pipeline import EnginePipeline
from antiphon.serving.lifecycle import Lifecycle
from antiphon.serving.served_model import describe_model

NUM_CLIENTS = 60


@pytest.fixture
def server(tiny_checkpoint: Path, listen: Any) -> Iterator[tuple[str, LocalEngine, Lifecycle]]:
    model = build_omni_model(tiny_checkpoint, device=torch.device("cpu"))
    deploy = load_deploy("cpu.yaml", platform="cpu")
    engine = LocalEngine(model, deploy)
    engine.start()
    services = Services(
        pipeline=EnginePipeline(engine),
        model=describe_model(model, deploy, root="tiny", names=("tiny",), created_s=1, is_tiny=True),
        voices=engine.voices,
    )
    with listen(create_app(services)) as url:
        yield url, engine, services.lifecycle


def bodies(chance: random.Random) -> Iterator[dict[str, Any]]:
    while True:
        yield {
            "messages": [{"role": "user", "content": f"Tell me about {chance.randrange(1000)}."}],
            "modalities": chance.choice((["text"], ["text", "audio"])),
            "max_tokens": chance.randrange(4, 24),
            "stream": chance.random() < 0.7,
            "sampling_params_list": None,
        }


async def visit(client: httpx.AsyncClient, body: dict[str, Any], leave_after: int | None) -> str:
    """Ask, and leave after some bytes if told to; returns how it went."""
    num_bytes = 0
    async with client.stream("POST", "/v1/chat/completions", json=body) as response:
        if leave_after == 0:
            return "left"
        text = ""
        async for piece in response.aiter_text():
            text += piece
            num_bytes += len(piece)
            if leave_after is not None and num_bytes > leave_after:
                return "left"
    if response.status_code != 200:
        return str(response.status_code)
    if body["stream"]:
        assert text.count("data: [DONE]") == 1
        assert text.count('"finish_reason":"') == 1
        assert '"error"' not in text
    return "done"


def test_sixty_mixed_clients_with_departures_leave_nothing_behind(
    server: tuple[str, LocalEngine, Lifecycle],
) -> None:
    url, engine, lifecycle = server
    chance = random.Random(1)
    fields = bodies(chance)
    plans = [(next(fields), chance.choice((None, None, 0, 300, 3000))) for _ in range(NUM_CLIENTS)]

    async def run() -> list[str]:
        limits = httpx.Limits(max_connections=NUM_CLIENTS)
        async with httpx.AsyncClient(base_url=url, timeout=120, limits=limits) as client:
            outcomes = await asyncio.gather(*(visit(client, body, leave) for body, leave in plans))
            for _ in range(500):
                if not engine.orchestrator.num_requests and not lifecycle.num_in_flight:
                    break
                await asyncio.sleep(0.02)
            last = await visit(client, {**plans[0][0], "stream": False}, None)
            return [*outcomes, last]

    outcomes = asyncio.run(run())
    assert set(outcomes) == {"done", "left"}
    assert outcomes[-1] == "done"
    assert outcomes.count("done") > NUM_CLIENTS // 3
    assert engine.orchestrator.num_requests == lifecycle.num_in_flight == 0
    gauges = engine.snapshot()
    busy = {name: gauges[name] for name in gauges if name.endswith(("requests", "running", "waiting", "to_encode"))}
    assert not any(busy.values()), busy
