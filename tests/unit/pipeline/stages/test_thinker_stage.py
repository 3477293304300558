from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from antiphon.core.errors import CapacityError, PromptError
from antiphon.core.handoff import Handoff
from antiphon.core.outputs import FinishReason
from antiphon.core.sampling import SamplingParams
from antiphon.engine.device_stream import DeviceStream
from antiphon.engine.thinker_messages import MediaRows, ThinkerJob, ThinkerOutput, TurnEnd
from antiphon.pipeline.messages import (
    ImageInput,
    RequestFailed,
    SpokenPiece,
    StageOutput,
    TextEnd,
    TextTokens,
    ThinkerRequest,
)
from antiphon.pipeline.stages.thinker import ThinkerStage
from antiphon.prompt.tokenizer import Tokenizer

TOKENIZER = Tokenizer.placeholder(1_000)
HIDDEN = 4


class FakeEngine:
    """Says what the test puts in; keeps what it was told."""

    def __init__(self) -> None:
        self.jobs: list[ThinkerJob] = []
        self.aborted: list[str] = []
        self.to_say: list[ThinkerOutput] = []
        self.failure: Exception | None = None
        self.has_work = False

    def warm_up(self, report: Callable[[str], None]) -> None:
        report("thinker")

    def admit(self, job: ThinkerJob) -> None:
        if self.failure is not None:
            raise self.failure
        self.jobs.append(job)

    def abort(self, seq_id: str) -> None:
        self.aborted.append(seq_id)

    def launch(self) -> bool:
        return False

    def collect(self) -> list[ThinkerOutput]:
        outputs, self.to_say = self.to_say, []
        return outputs

    def snapshot(self) -> dict[str, float]:
        return {"blocks_used": 2}


class FakeEncoder:
    failure: Exception | None = None

    def encode(self, request: ThinkerRequest) -> tuple[MediaRows, ...]:
        if self.failure is not None:
            raise self.failure
        return (MediaRows(1, torch.ones(2, HIDDEN), b"digest"),)


class World:
    def __init__(self) -> None:
        self.engine, self.encoder = FakeEngine(), FakeEncoder()
        self.stage = self.make()

    def make(self, *, early_stop: bool = True) -> ThinkerStage:
        stream = DeviceStream(torch.device("cpu"))
        return ThinkerStage(
            self.engine, self.encoder, TOKENIZER, stream=stream, hidden_size=HIDDEN, early_stop=early_stop
        )

    def draw(self, *ids: int, rows: int = 0, first: int = 0, **fields: object) -> list[StageOutput]:
        """The engine has drawn *ids*, and the rows of *rows* tokens from number *first* on, whose values they hold."""
        hidden = torch.arange(first, first + rows)[:, None].repeat(1, HIDDEN).float() if rows else None
        self.engine.to_say = [ThinkerOutput(seq_id="a", epoch=0, new_ids=ids, hidden=hidden, **fields)]  # type: ignore[arg-type]
        return list(self.stage.collect())


@pytest.fixture
def world() -> World:
    return World()


def make(handoff: Handoff | None = None, **fields: object) -> ThinkerRequest:
    request = ThinkerRequest(
        request_id="a",
        epoch=0,
        ids=(1, 2, 3, 4),
        images=(),
        audio=None,
        sampling=SamplingParams(max_tokens=50, top_k=-1),
        seed=9,
        handoff=handoff,
        deadline_s=1.5,
    )
    return replace(request, **fields)  # type: ignore[arg-type]


PICTURE = ImageInput(start=1, num_rows=2, strip=np.zeros((3, 2, 2), np.float32), grid=(1, 1), digest=b"x")


def test_the_engine_is_told_everything_about_a_request(world: World) -> None:
    world.stage.admit(make(Handoff.SPAN))
    (job,) = world.engine.jobs
    assert job.sampling is not None
    assert (job.ids, job.deadline_s, job.wants_hidden, job.is_resumable) == ((1, 2, 3, 4), 1.5, True, False)
    assert (job.sampling.seed, job.sampling.top_k, job.sampling.max_tokens) == (9, 0, 50)
    special = TOKENIZER.special
    assert set(job.sampling.end_ids) == {special.im_end, special.tts_eos, special.endoftext}
    world.make(early_stop=False).admit(make())
    assert special.tts_eos not in world.engine.jobs[-1].sampling.end_ids  # type: ignore[union-attr]
    assert not world.engine.jobs[-1].wants_hidden


def test_media_are_encoded_in_a_launch_and_then_admitted(world: World) -> None:
    world.stage.admit(make(images=(PICTURE,)))
    assert (world.engine.jobs, world.stage.is_busy) == ([], True)
    assert world.stage.launch()
    assert [(media.start, media.digest) for media in world.engine.jobs[0].media] == [(1, b"digest")]
    assert not world.stage.is_busy


@pytest.mark.parametrize("failure", [PromptError("no fit"), RuntimeError("no memory")])
def test_media_that_cannot_be_encoded_end_their_request(world: World, failure: Exception) -> None:
    world.encoder.failure = failure
    world.stage.admit(make(images=(PICTURE,)))
    world.stage.launch()
    (failed,) = world.stage.collect()
    assert isinstance(failed, RequestFailed)
    assert (failed.stage, failed.message) == ("thinker", str(failure))
    assert world.stage.snapshot()["requests"] == 0


def test_an_abort_reaches_the_engine_or_the_queue(world: World) -> None:
    world.stage.admit(make())
    world.stage.abort("a")
    world.stage.abort("a")
    assert world.engine.aborted == ["a"]
    assert world.draw(300) == []
    world.stage.admit(make(images=(PICTURE,)))
    world.stage.abort("a")
    assert not world.stage.launch()
    assert world.engine.aborted == ["a"]
    assert world.stage.snapshot() == {"blocks_used": 2, "requests": 0, "to_encode": 0}


def test_an_engine_that_refuses_raises_for_the_loop(world: World) -> None:
    world.engine.failure = CapacityError("full")
    with pytest.raises(CapacityError):
        world.stage.admit(make())
    world.stage.abort("a")
    assert world.stage.snapshot()["requests"] == 0


def test_text_is_told_as_it_is_drawn_and_its_end_once(world: World) -> None:
    world.stage.admit(make())
    assert world.draw(300) == [TextTokens(request_id="a", epoch=0, ids=(300,))]
    assert world.draw(finish_reason=TurnEnd.STOP, stop_id=7, num_cached_tokens=3) == [
        TextEnd(request_id="a", epoch=0, reason=FinishReason.STOP, stop_id=7, num_cached_tokens=3)
    ]
    assert world.draw(300) == []


def test_a_span_follows_its_end_with_all_rows(world: World) -> None:
    world.stage.admit(make(Handoff.SPAN))
    world.draw(300)
    world.draw(301, rows=1)
    end, piece = world.draw(rows=1, first=1, finish_reason=TurnEnd.LENGTH)
    assert isinstance(end, TextEnd)
    assert isinstance(piece, SpokenPiece)
    assert (end.reason, piece.ids, piece.is_last) == (FinishReason.LENGTH, (300, 301), True)
    assert piece.rows[:, 0].tolist() == [0.0, 1.0]


def test_a_streamed_piece_leaves_as_soon_as_it_is_known_not_to_be_the_last(world: World) -> None:
    world.stage.admit(make(Handoff.STREAM))
    outputs = world.draw(300)
    for index in range(1, 11):
        outputs = world.draw(300 + index, rows=1, first=index - 1)
    _, piece = outputs
    assert isinstance(piece, SpokenPiece)
    assert (piece.ids, piece.is_last) == (tuple(range(300, 310)), False)
    assert piece.rows[:, 0].tolist() == list(range(10))
    _, last = world.draw(rows=1, first=10, finish_reason=TurnEnd.STOP, stop_id=5)
    assert isinstance(last, SpokenPiece)
    assert (last.ids, last.is_last, last.rows[:, 0].tolist()) == ((310,), True, [10.0])


def test_a_stop_string_ends_the_sequence_and_what_it_drew_beyond_is_dropped(world: World) -> None:
    sampling = SamplingParams(max_tokens=50, stop=("w302",))
    world.stage.admit(make(Handoff.SPAN, sampling=sampling))
    world.draw(300)
    text, end, piece = world.draw(301, 302, 303, rows=2)
    assert text == TextTokens(request_id="a", epoch=0, ids=(301, 302))
    assert isinstance(end, TextEnd)
    assert isinstance(piece, SpokenPiece)
    assert (end.reason, end.stop_id, piece.ids) == (FinishReason.STOP, None, (300, 301))
    assert world.engine.aborted == ["a"]


def test_an_empty_answer_still_tells_the_talker(world: World) -> None:
    world.stage.admit(make(Handoff.STREAM))
    _, piece = world.draw(finish_reason=TurnEnd.STOP, stop_id=5)
    assert isinstance(piece, SpokenPiece)
    assert (piece.ids, tuple(piece.rows.shape), piece.is_last) == ((), (0, HIDDEN), True)


def test_values_that_are_not_finite_end_the_request(world: World) -> None:
    world.stage.admit(make())
    (failed,) = world.draw(finish_reason=TurnEnd.ERROR, error="not finite")
    assert isinstance(failed, RequestFailed)
    assert failed.message == "not finite"


def test_an_output_of_another_epoch_is_dropped(world: World) -> None:
    world.stage.admit(make(epoch=1))
    assert world.draw(300) == []
