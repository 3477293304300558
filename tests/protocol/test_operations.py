"""Health, metrics, models, pages, draining."""

from typing import Any

Server = Any


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
