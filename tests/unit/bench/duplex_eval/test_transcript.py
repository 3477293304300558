"""What is kept of a session's events."""

import base64

from antiphon.bench.duplex_eval.transcript import Transcript

SECOND = base64.b64encode(bytes(48_000)).decode()


def audio(response_id: str = "r", **fields: object) -> dict[str, object]:
    return {"type": "response.output_audio.delta", "response_id": response_id, "delta": SECOND, **fields}


def text(delta: str, kind: str = "response.output_audio_transcript.delta") -> dict[str, object]:
    return {"type": kind, "response_id": "r", "delta": delta}


def test_a_spoken_response_has_its_times() -> None:
    transcript = Transcript()
    transcript.receive({"type": "response.created", "response": {"id": "r"}}, 1.0)
    assert transcript.is_speaking
    assert transcript.receive(audio(sample_rate_hz=24_000), 1.5) == ("r", 1.0)
    transcript.receive(text("Hi"), 1.6)
    transcript.receive(audio(), 2.5)
    transcript.receive({"type": "response.done", "response": {"id": "r", "status": "completed"}}, 2.6)
    response = transcript.responses["r"]
    assert (response.created_s, response.first_audio_s, response.first_text_s) == (1.0, 1.5, 1.6)
    assert (response.last_audio_s, response.audio_s, response.status) == (2.5, 2.0, "completed")
    assert not transcript.is_speaking
    assert [piece.text for piece in transcript.pieces] == ["Hi"]


def test_empty_text_is_nothing_said() -> None:
    transcript = Transcript()
    transcript.receive(text(""), 1.0)
    assert transcript.pieces == []


def test_a_listen_with_an_id_ends_that_response_and_one_without_is_a_beat() -> None:
    transcript = Transcript()
    transcript.receive({"type": "response.listen", "response": {"status": "listening"}}, 1.0)
    assert transcript.responses == {}
    transcript.receive({"type": "response.created", "response": {"id": "r"}}, 1.0)
    transcript.receive({"type": "response.listen", "response_id": "r"}, 2.0)
    assert not transcript.is_speaking
    assert transcript.num_listens == 2


def test_the_servers_own_latencies_count_only_with_their_origin() -> None:
    transcript = Transcript()
    stamped = {"ttft_ms": 120.0, "ttfp_ms": 240, "measurement_origin": {"ttft": "x"}}
    transcript.receive(audio(metadata={"vllm_omni": {"response_request_metrics": stamped}}), 1.0)
    assert transcript.responses["r"].server_ttft_ms == 120.0
    assert transcript.responses["r"].server_ttfp_ms == 240.0
    unstamped = {**stamped, "measurement_origin": "somewhere"}
    transcript.receive(audio("s", metadata={"response_request_metrics": unstamped}), 1.0)
    assert transcript.responses["s"].server_ttft_ms is None


def test_errors_are_kept_as_words() -> None:
    transcript = Transcript()
    transcript.receive({"type": "error", "error": {"code": "bad_audio", "message": "odd"}}, 1.0)
    transcript.receive(audio(delta="?"), 1.0)
    assert transcript.errors == ["bad_audio: odd", "the server sent audio that is not base64"]
