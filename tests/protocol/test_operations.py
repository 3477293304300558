"""Health, metrics, models, pages, draining."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from antiphon.config.load import load_deploy
from antiphon.core.errors import EngineError
from antiphon.core.outputs import RequestMetrics
from antiphon.pipeline.events import Failed
from antiphon.pipeline.stage_facts import StageGauges, StageObservation
from antiphon.serving.server_facts import server_facts

Server = Any
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@dataclass
class FakeTrace:
    name: str
    parent: str | None
    waited_s: float
    ends: list[str] = field(default_factory=list)

    def finish(self, metrics: RequestMetrics, *, finish_reason: str, ttft_s: float | None, speaks: bool) -> None:
        self.ends.append(finish_reason)

    def fail(self, reason: str) -> None:
        self.ends.append(reason)


@dataclass
class FakeTracing:
    traces: list[FakeTrace] = field(default_factory=list)

    def start(
        self, name: str, headers: Mapping[str, str], *, request_id: str, model: str, waited_s: float
    ) -> FakeTrace:
        self.traces.append(FakeTrace(name, headers.get("traceparent"), waited_s))
        return self.traces[-1]

    def close(self) -> None:
        self.traces.append(FakeTrace("closed", None, 0.0))


def test_health_tells_the_truth_about_every_stage(server: Server) -> None:
    response = server.get("/health")
    assert (response.status_code, response.json()["status"]) == (200, "healthy")
    assert response.json()["stages"]["talker"] == {"state": "ready", "replicas": 1, "ready": 1}
    server.pipeline.is_ready = False
    response = server.get("/health")
    assert (response.status_code, response.json()["status"]) == (503, "unhealthy")
    assert response.json()["stages"]["talker"]["state"] == "down"
    assert server.get("/health/live").status_code == 503
    assert server.get("/health/ready").status_code == 503


def test_c100_a_draining_server_is_alive_and_takes_nothing(server: Server) -> None:
    server.services.lifecycle.is_draining = True
    assert server.get("/health").json()["reason"] == "draining"
    assert server.get("/health/ready").status_code == 503
    assert server.get("/health/live").status_code == 200
    response = server.chat()
    assert response.status_code == 503
    assert server.error(response)["type"] == "ServiceUnavailableError"
    assert response.headers["retry-after"] == "1"
    assert server.get("/v1/models").status_code == 200


def test_models_have_a_card_for_each_name(server: Server) -> None:
    cards = server.get("/v1/models").json()["data"]
    assert [card["id"] for card in cards] == ["omni", "other"]
    assert (cards[0]["root"], cards[0]["max_model_len"], cards[0]["object"]) == ("folder/omni", 4096, "model")
    assert server.get("/v1/models/other").json()["id"] == "other"
    response = server.get("/v1/models/a/b")
    assert response.status_code == 404
    assert server.error(response)["type"] == "NotFoundError"


def test_metrics_can_be_turned_off(server: Server) -> None:
    assert server.get("/metrics").headers["content-type"].startswith("text/plain")
    server.configure(has_metrics=False)
    assert server.get("/metrics").status_code == 404
    assert server.chat().status_code == 200


def test_the_pages_bring_everything_themselves(server: Server) -> None:
    for path, kind in (
        ("/", "text/html"),
        ("/app.js", "text/javascript"),
        ("/style.css", "text/css"),
        ("/docs", "text/html"),
    ):
        response = server.get(path)
        assert response.headers["content-type"].startswith(kind)
        assert "default-src 'self'" in response.headers["content-security-policy"]
        assert "https://" not in response.text
        assert "http://" not in response.text.replace("http://www.w3.org/2000/svg", "")
    assert "the voice is noise" in " ".join(server.get("/").text.split())


def test_the_metrics_tell_of_stages_replicas_and_hops(server: Server) -> None:
    hop = {"stage": 2, "replica": 0, "from_replica": 1, "connector": "shm"}
    server.pipeline.stages = [
        StageGauges(stage=0, replica=0, values={"num_running": 2.0, "num_waiting": 3.0}),
        StageGauges(stage=1, replica=1, values={"speaking": 1.0}),
    ]
    server.pipeline.observed = [
        StageObservation(family="transfer_size_bytes", value=2048, **hop),
        StageObservation(family="transfer_in_flight_s", value=0.002, **hop),
        StageObservation(family="kv_wait_s", value=0.1, **hop),
        StageObservation(family="stage_in_queue_s", value=0.2, stage=1, replica=1),
    ]
    text = server.get("/metrics").text
    place = 'from_replica="1",from_stage="1",model_name="omni",to_replica="0",to_stage="2"'
    for line in (
        f"vllm_omni:transfer_size_bytes_sum{{{place}}} 2048.0",
        f"vllm_omni:transfer_in_flight_s_count{{{place}}} 1.0",
        'vllm_omni:kv_wait_s_count{connector_type="shm",model_name="omni"} 1.0',
        'vllm_omni:stage_in_queue_s_count{model_name="omni",stage="1"} 1.0',
        'vllm_omni:stage_waiting_requests{model_name="omni",stage="0"} 3.0',
        'vllm_omni:num_requests_waiting{model_name="omni"} 5.0',
        'vllm:num_requests_running{model_name="omni",replica="1",stage="1"} 1.0',
        'vllm:request_queue_time_seconds_count{model_name="omni",replica="1",stage="1"} 1.0',
    ):
        assert line in text


def test_the_version_tells_what_a_benchmark_must_keep(server: Server) -> None:
    deploy = load_deploy("cpu.yaml", platform="cpu")
    facts = server_facts(deploy, torch.device("cpu"), in_processes=False)
    server.services = replace(server.services, facts=facts)
    told = server.get("/version").json()
    assert told["optimizations"]["hand_off"] == deploy.optimizations.hand_off
    assert {"python", "torch", "numpy"} <= set(told["versions"])
    assert (told["stages"]["talker"]["replicas"], told["processes"]) == (1, False)


def test_a_request_is_traced_with_its_parent_and_its_end(server: Server) -> None:
    tracing = FakeTracing()
    server.services = replace(server.services, tracing=tracing)
    server.chat(headers={"traceparent": PARENT})
    server.pipeline.end = Failed(EngineError("inside"), "talker")
    server.chat()
    server.request("POST", "/v1/audio/speech", json={"input": "x", "response_format": "wav", "stream": False})
    assert [trace.name for trace in tracing.traces] == [*["POST /v1/chat/completions"] * 2, "POST /v1/audio/speech"]
    assert tracing.traces[0].parent == PARENT
    assert [trace.ends for trace in tracing.traces] == [["stop"], ["stage_error"], ["stage_error"]]
    assert tracing.traces[0].waited_s >= 0


def test_the_version_says_whose_voice_will_be_heard(server: Server) -> None:
    assert server.get("/version").json() == {"version": "0.1.0", "model": "omni", "is_tiny": True}


def test_the_interface_is_described(server: Server) -> None:
    document = server.get("/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    assert {"/v1/chat/completions", "/v1/audio/speech", "/v1/models", "/health", "/metrics"} <= set(document["paths"])
    chat = document["components"]["schemas"]["ChatRequest"]["properties"]
    assert {"messages", "modalities", "ref_audio", "sampling_params_list"} <= set(chat)
    assert "security" not in document
    server.configure(api_keys=("k",))
    keyed = server.get("/openapi.json", headers={"Authorization": "Bearer k"}).json()
    assert keyed["security"] == [{"key": []}]
