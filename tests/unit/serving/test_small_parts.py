"""Parts of the server that decide something in a few lines."""

import asyncio
import base64
from time import monotonic

import numpy as np
import pytest
from starlette.types import Message

from antiphon.audio.formats import FORMATS
from antiphon.core.errors import CapacityError, ConfigError, EngineError, MediaError, SamplingError, StateError
from antiphon.core.outputs import FinishReason, RequestMetrics
from antiphon.core.sampling import DEFAULT_STAGE_PARAMS
from antiphon.pipeline.events import Aborted, AudioChunk, Failed, Finished, TextDelta
from antiphon.serving.audio_chunks import JoinedPieces
from antiphon.serving.auth import KeyRing
from antiphon.serving.conversation import DecodePool
from antiphon.serving.errors import HttpError, StageFailedError, error_response, problem_of
from antiphon.serving.http import ClientGoneError, while_connected
from antiphon.serving.lifecycle import Lifecycle
from antiphon.serving.playback import Playback
from antiphon.serving.server import bind
from antiphon.serving.stage_params import stage_params
from antiphon.serving.usage import finish_reason, stage_metrics
from antiphon.serving.watch import RequestWatch
from antiphon.telemetry.families import Families
from antiphon.wire.chat import ChatMessage, ChatRequest
from antiphon.wire.parse import WireError

METRICS = RequestMetrics(
    num_prompt_tokens=10,
    num_text_tokens=5,
    num_codec_frames=50,
    audio_duration_s=2.0,
    time_to_first_text_s=0.1,
    text_finished_s=0.5,
    time_to_first_audio_s=0.3,
    total_s=1.0,
)


def finished(speech: FinishReason | None = FinishReason.STOP) -> Finished:
    return Finished(
        text="x",
        token_ids=(1,),
        finish_reason=FinishReason.STOP,
        codec_ids=(1,),
        speech_finish_reason=speech,
        metrics=METRICS,
    )


def test_a_key_ring_knows_its_keys_only() -> None:
    ring = KeyRing(("one", "zwei ü"))
    assert [ring.accepts(key) for key in ("one", "zwei ü", "", "on", "one ", "\udcff")] == [True, True] + [False] * 4
    assert not KeyRing(()).accepts("")


def test_a_player_that_starts_at_once_has_gaps_when_chunks_are_late() -> None:
    playback = Playback()
    for now_s, duration_s in ((10.0, 1.0), (10.5, 1.0), (12.25, 1.0), (12.5, 1.0)):
        playback.arrive(now_s, duration_s)
    assert playback.worst_gap_s == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (SamplingError("top_p is 5"), 400, "BadRequestError"),
        (MediaError("the image is\nbroken"), 400, "BadRequestError"),
        (WireError("x", "y"), 400, "BadRequestError"),
        (HttpError(404, "no", kind="NotFoundError"), 404, "NotFoundError"),
        (CapacityError("full"), 503, "ServiceUnavailableError"),
        (StateError("closed"), 503, "ServiceUnavailableError"),
        (EngineError("inside"), 500, "InternalServerError"),
        (ValueError("inside"), 500, "InternalServerError"),
        (StageFailedError(MediaError("not finite"), "thinker"), 400, "BadRequestError"),
        (StageFailedError(EngineError("inside"), "talker"), 500, "InternalServerError"),
    ],
)
def test_each_error_has_a_status(error: Exception, status: int, kind: str) -> None:
    problem = problem_of(error)
    assert (problem.status, problem.kind) == (status, kind)
    assert "\n" not in problem.message
    assert "inside" not in problem.message
    response = error_response(problem, "id")
    assert response.status_code == status
    assert (b"request_id" in bytes(response.body)) == (status >= 500)


def test_pieces_of_base64_join_without_padding_between_them() -> None:
    pieces = JoinedPieces(FORMATS["pcm"], 24_000)
    samples = np.linspace(-1, 1, 1001, dtype=np.float32)
    written = [pieces.push(part) for part in np.array_split(samples, 7)]
    assert not any("=" in piece for piece in written)
    assert base64.b64decode("".join([*written, pieces.finish()])) == (samples * 32767).astype("<i2").tobytes()


def test_a_cut_off_voice_is_a_cut_off_answer() -> None:
    assert [finish_reason(finished(reason)) for reason in (*FinishReason, None)] == ["stop", "length", "stop"]


def test_the_timeline_has_the_references_keys() -> None:
    timeline = stage_metrics(METRICS, speaks=True, output_type="audio")
    stages = timeline["stage_metrics"]
    assert isinstance(stages, dict)
    assert stages["0"]["vllm_tpot_ms"] == pytest.approx(100.0)
    assert (stages["1"]["num_tokens_out"], stages["2"]["audio_generated_frames"]) == (50, 48_000)
    assert stages["2"]["audio_rtf"] == 0.5
    assert set(stage_metrics(METRICS, speaks=False, output_type="text")["stage_metrics"]) == {"0"}  # type: ignore[call-overload]


def test_defaults_are_kept_where_a_request_says_nothing() -> None:
    request = ChatRequest(messages=[ChatMessage(role="user", content="x")])
    assert stage_params(request, DEFAULT_STAGE_PARAMS) == DEFAULT_STAGE_PARAMS


def test_draining_waits_for_the_last_request() -> None:
    async def run() -> None:
        lifecycle = Lifecycle()
        lifecycle.enter()
        lifecycle.enter()
        lifecycle.leave()
        assert await lifecycle.drain(0.01) is False
        lifecycle.leave()
        assert await lifecycle.drain(0.01) is True
        assert lifecycle.is_draining

    asyncio.run(run())


def test_draining_also_waits_for_whoever_asked_for_it() -> None:
    waited: list[float] = []

    async def sessions(timeout_s: float) -> None:
        await asyncio.sleep(0)
        waited.append(timeout_s)

    async def broken(timeout_s: float) -> None:
        raise StateError("no")

    async def run() -> None:
        lifecycle = Lifecycle()
        lifecycle.drains_too(sessions)
        assert await lifecycle.drain(0.5) is True
        lifecycle.enter()
        assert await lifecycle.drain(0.01) is False
        lifecycle.drains_too(broken)
        with pytest.raises(StateError, match="no"):
            await lifecycle.drain(0.01)

    asyncio.run(run())
    assert waited == [0.5, 0.01, 0.01]


def test_work_ends_when_the_client_goes() -> None:
    async def run() -> None:
        is_cancelled = asyncio.Event()

        async def work() -> None:
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                is_cancelled.set()
                raise

        async def receive() -> Message:
            await asyncio.sleep(0.01)
            return {"type": "http.disconnect"}

        with pytest.raises(ClientGoneError):
            await while_connected(receive, work())
        assert is_cancelled.is_set()

        async def never() -> Message:
            await asyncio.sleep(10)
            raise AssertionError

        async def quick() -> int:
            return 5

        assert await while_connected(never, quick()) == 5
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(run())


def test_the_decode_pool_is_bounded() -> None:
    async def run() -> None:
        pool = DecodePool(num_threads=1, max_waiting=2)
        start_s = monotonic()

        def wait() -> float:
            while monotonic() - start_s < 0.1:
                pass
            return 1.0

        waiting = [asyncio.ensure_future(pool.run(wait)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(CapacityError, match="too many media"):
            await pool.run(wait)
        assert await asyncio.gather(*waiting) == [1.0, 1.0]
        assert pool.num_waiting == 0
        pool.close()

    asyncio.run(run())


class Watched:
    """A watch on a clock moved by hand."""

    def __init__(self, *, speaks: bool = True) -> None:
        self.now_s = 100.0
        self.families = Families("m")
        self.watch = RequestWatch(
            self.families, arrival_s=100.0, speaks=speaks, is_streamed=True, clock=lambda: self.now_s
        )

    def see(self, now_s: float, event: TextDelta | AudioChunk | Finished | Failed | Aborted) -> None:
        self.now_s = now_s
        self.watch.see(event)

    @property
    def lines(self) -> set[str]:
        return set(self.families.render().decode().splitlines())


def test_a_request_is_measured_from_its_arrival() -> None:
    watched = Watched()
    assert 'vllm_omni:num_requests_running{model_name="m"} 1.0' in watched.lines
    chunk = AudioChunk(np.zeros(24_000, np.float32), 24_000)
    for now_s, event in ((100.02, TextDelta("a")), (100.5, chunk), (101.9, chunk), (102.0, finished())):
        watched.see(now_s, event)
    stage = 'model_name="m",replica="0",stage="2"'
    assert watched.lines >= {
        'vllm_omni:num_requests_running{model_name="m"} 0.0',
        f"vllm_omni:audio_ttfp_s_sum{{{stage}}} 0.5",
        f"vllm_omni:audio_frames_total{{{stage}}} 48000.0",
        'vllm_omni:requests_success_total{finished_reason="stop",model_name="m"} 1.0',
        'vllm_omni:prompt_tokens_total{model_name="m"} 10.0',
        'vllm_omni:generation_tokens_total{model_name="m"} 55.0',
    }
    # The second chunk came 0.4 s late: not an unbroken stream.
    assert not any(line.startswith("vllm_omni:audio_continuity_ok_total{") for line in watched.lines)


def test_a_request_ends_once() -> None:
    watched = Watched()
    watched.see(101.0, Failed(EngineError("x")))
    watched.watch.fail("client_disconnect")
    watched.see(102.0, finished())
    assert 'vllm_omni:requests_failed_total{model_name="m",reason="stage_error"} 1.0' in watched.lines
    assert 'vllm_omni:requests_success_total{finished_reason="abort",model_name="m"} 1.0' in watched.lines
    assert 'vllm_omni:num_requests_running{model_name="m"} 0.0' in watched.lines
    assert not any("client_disconnect" in line for line in watched.lines)


def test_silence_where_speech_was_asked_for_is_counted() -> None:
    watched = Watched()
    watched.see(101.0, finished(None))
    assert any(line.startswith("vllm_omni:audio_skipped_requests_total{") for line in watched.lines)


def test_an_address_that_is_taken_is_refused_before_anything_is_loaded() -> None:
    with bind("127.0.0.1", 0) as taken:
        taken.listen()
        with pytest.raises(ConfigError, match="Address already in use"):
            bind("127.0.0.1", taken.getsockname()[1])
    with pytest.raises(ConfigError, match=r"cannot listen on 192\.0\.2\.1"):
        bind("192.0.2.1", 0)
    with bind("::1", 0) as six:
        assert six.getsockname()[1] > 0
