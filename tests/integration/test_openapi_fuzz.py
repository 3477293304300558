"""Requests made up from the server's own description never make it fail."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import schemathesis
import torch

from antiphon.config.load import load_deploy
from antiphon.pipeline.build import build_omni_model
from antiphon.pipeline.local_engine import LocalEngine
from antiphon.serving.app import Services, create_app
from antiphon.serving.engine_pipeline import EnginePipeline
from antiphon.serving.served_model import describe_model

NUM_EXAMPLES = 25  # of each operation


@pytest.fixture(scope="module")
def url(tiny_checkpoint: Path, listen: Any) -> Iterator[str]:
    model = build_omni_model(tiny_checkpoint, device=torch.device("cpu"))
    # Short answers: what is tried is the door, not the model.
    flags = {"default_sampling_params": {"max_tokens": 4, "min_tokens": 0}}
    deploy = load_deploy("cpu.yaml", platform="cpu", flags=flags)
    engine = LocalEngine(model, deploy)
    engine.start()
    services = Services(
        pipeline=EnginePipeline(engine),
        model=describe_model(model, deploy, root="tiny", names=("tiny",), created_s=1, is_tiny=True),
        voices=engine.voices,
    )
    with listen(create_app(services)) as address:
        yield address


def attack(operation: Any, url: str) -> set[int]:
    """Send made-up requests for *operation*; returns the statuses that came back."""
    seen: set[int] = set()

    @hypothesis.given(case=operation.as_strategy())
    @hypothesis.settings(
        max_examples=NUM_EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    def send(case: Any) -> None:
        response = case.call(base_url=url, timeout=60)
        seen.add(response.status_code)
        assert response.status_code < 500, (case.body, response.text)

    send()
    return seen


@pytest.mark.filterwarnings("ignore")  # of libraries of the fuzzer
def test_no_request_makes_the_server_fail(url: str) -> None:
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    operations = [result.ok() for result in schema.get_all_operations()]
    statuses = {operation.path: attack(operation, url) for operation in operations}
    assert statuses.keys() >= {"/v1/chat/completions", "/v1/audio/speech", "/v1/models/{name}", "/metrics"}
    assert 200 in statuses["/v1/audio/speech"] | statuses["/v1/chat/completions"]
