from collections.abc import Callable

import numpy as np
import pytest
import torch

from antiphon.audio.voice import VoiceFeatures
from antiphon.core.errors import CapacityError
from antiphon.engine.code2wav_streams import SpeechJob, SpeechOutput
from antiphon.models.code2wav.flow import VoicePrompt
from antiphon.pipeline.messages import CodecChunk, RequestFailed, SpeechSamples, StageOutput, VoiceRequest
from antiphon.pipeline.speech import SAMPLES_PER_CODE
from antiphon.pipeline.stage import FIRST_CHUNK, NEXT_CHUNK
from antiphon.pipeline.stages.code2wav import Code2WavStage
from antiphon.pipeline.voice_book import PreparedVoice

FEATURES = VoiceFeatures(np.zeros(2, np.int64), np.zeros(3, np.float32), np.zeros((4, 5), np.float32))
PRIMING = 3 * SAMPLES_PER_CODE


class FakeEngine:
    """Says what the test puts in; keeps what it was told."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.to_say: list[SpeechOutput] = []
        self.under_way = 0
        self.failure: Exception | None = None

    def warm_up(self, report: Callable[[str], None]) -> None:
        report("code2wav")

    def add_voice(self, key: str, prompt: VoicePrompt) -> None:
        self.log.append(f"voice {key} {tuple(prompt.mel.shape)}")

    def has_voice(self, key: str) -> bool:
        return False

    def admit(self, job: SpeechJob) -> None:
        if self.failure is not None:
            raise self.failure
        self.log.append(f"admit {job.stream_id} {job.voice_key} {job.source_seed}")

    def push(self, stream_id: str, codes: tuple[int, ...], *, is_last: bool) -> None:
        self.log.append(f"push {len(codes)} {is_last}")

    def close_input(self, stream_id: str) -> None:
        self.log.append("close")

    def abort(self, stream_id: str) -> None:
        self.log.append("abort")

    def launch(self) -> bool:
        return True

    def collect(self) -> list[SpeechOutput]:
        outputs, self.to_say = self.to_say, []
        return outputs

    def snapshot(self) -> dict[str, float]:
        return {"launches_under_way": self.under_way}


class World:
    def __init__(self) -> None:
        self.engine = FakeEngine()
        self.stage = Code2WavStage(
            self.engine, device=torch.device("cpu"), default_voice=PreparedVoice("own", FEATURES)
        )

    def admit(self) -> None:
        self.stage.admit(
            VoiceRequest(
                request_id="a",
                epoch=0,
                voice_key="v",
                voice_codes=FEATURES.codes,
                voice_xvector=FEATURES.xvector,
                voice_mel=FEATURES.mel,
                seed=6,
                deadline_s=1.0,
            )
        )

    def push(self, count: int, *, is_last: bool = False) -> None:
        self.stage.extend(CodecChunk(request_id="a", epoch=0, codes=(5,) * count, is_last=is_last))

    def voiced(self, count: int, **fields: object) -> list[StageOutput]:
        samples = np.arange(count, dtype=np.float32)
        self.engine.to_say = [SpeechOutput("a", 0, samples, **fields)]  # type: ignore[arg-type]
        return list(self.stage.collect())


@pytest.fixture
def world() -> World:
    return World()


def test_a_stream_is_opened_with_its_voice_and_closed_with_its_last_chunk(world: World) -> None:
    world.admit()
    world.push(28)
    world.push(6, is_last=True)
    assert world.engine.log == ["voice v (1, 5, 4)", "admit a v 6", "push 28 False", "push 6 True", "close"]


def test_the_silence_that_primes_the_vocoder_is_left_out(world: World) -> None:
    world.admit()
    world.push(28)
    (out,) = world.voiced(PRIMING + 2)
    assert isinstance(out, SpeechSamples)
    assert out.samples.tolist() == [PRIMING, PRIMING + 1]
    (out,) = world.voiced(3)
    assert isinstance(out, SpeechSamples)
    assert len(out.samples) == 3


def test_a_chunk_that_is_all_silence_says_nothing_unless_it_is_the_last(world: World) -> None:
    world.admit()
    assert world.voiced(10) == []
    (out,) = world.voiced(10, finish_reason="stop")
    assert isinstance(out, SpeechSamples)
    assert (len(out.samples), out.is_last) == (0, True)
    assert world.stage.snapshot()["requests"] == 0


def test_nothing_to_voice_closes_the_stream(world: World) -> None:
    world.admit()
    world.push(0, is_last=True)
    assert world.engine.log[-1] == "close"


def test_the_first_chunk_is_urgent_until_it_is_heard(world: World) -> None:
    world.admit()
    assert world.stage.urgency()[0] == NEXT_CHUNK
    world.push(28)
    assert (world.stage.urgency()[0], world.stage.is_busy) == (FIRST_CHUNK, True)
    world.voiced(PRIMING + 1)
    assert (world.stage.urgency()[0], world.stage.is_busy) == (NEXT_CHUNK, False)
    world.engine.under_way = 1
    assert world.stage.is_busy


def test_an_error_and_an_abort_forget_the_request(world: World) -> None:
    world.admit()
    (failed,) = world.voiced(0, finish_reason="error", error="not numbers")
    assert isinstance(failed, RequestFailed)
    assert (failed.stage, failed.message) == ("code2wav", "not numbers")
    world.admit()
    world.stage.abort("a")
    world.stage.abort("a")
    world.push(28)
    assert world.engine.log.count("abort") == 1
    assert world.voiced(5) == []


def test_an_engine_that_refuses_raises_for_the_loop(world: World) -> None:
    world.engine.failure = CapacityError("full")
    with pytest.raises(CapacityError):
        world.admit()
    world.stage.abort("a")
    assert "abort" not in world.engine.log


def test_the_default_voice_is_made_ready_first(world: World) -> None:
    lines: list[str] = []
    world.stage.warm_up(lines.append)
    assert world.engine.log == ["voice own (1, 5, 4)"]
    assert lines == ["code2wav", "voice: default"]
