from collections import deque

import pytest
import torch

from antiphon.engine import thinker_wire
from antiphon.engine.block_table import BlockMove, CutPlan
from antiphon.engine.device_stream import DeviceStream
from antiphon.engine.duplex_seat_rule import DuplexIds, DuplexSeatRule
from antiphon.engine.text_sampler import SampleKind
from antiphon.engine.text_sampler_state import SeatRule
from antiphon.engine.thinker_step import MediaPart, PrefillRow, StepInput
from antiphon.layers.parallel import ALONE, ParallelGroup

STREAM = DeviceStream(torch.device("cpu"))
RULE = SeatRule(
    temperature=0.7,
    top_p=0.8,
    min_p=0.0,
    repetition_penalty=1.02,
    frequency_penalty=0.1,
    presence_penalty=-0.3,
    top_k=100,
    seed=2**63 - 1,
    banned=((5, 3), (6, 2**31 - 1)),
    draw_step=9,
    turn_step=2,
    generated=(8, 1),
)
DUPLEX_RULE = DuplexSeatRule(
    is_greedy=False,
    temperature=0.6,
    top_k=20,
    top_p=0.9,
    listen_prob_scale=1.5,
    listen_top_k=2,
    repetition_penalty=1.05,
    penalty_window=512,
    length_penalty=1.1,
    seed=2**63 - 1,
    draw_step=31,
    is_turn_open=True,
    history=(4, 4, 7),
)
STEP = StepInput(
    kind=SampleKind.DUPLEX_TOP_K,
    decodes=(3, 0),
    prefills=(
        PrefillRow(ids=(1, 2, 3), start=16, blocks=(7, 4)),
        PrefillRow(ids=(9,), start=0, blocks=(2,), seat=5, rule=RULE),
        PrefillRow(ids=(8,), start=0, blocks=(3,), seat=6, rule=DUPLEX_RULE),
    ),
    media=(MediaPart(1, torch.randn(2, 4)),),
    moves=(BlockMove(True, ((1, 2), (3, 4))), BlockMove(False, ())),
    table_updates=((3, 1, 12),),
    keeps_hidden=True,
    duplex_ids=DuplexIds(chunk_eos=1, turn_eos=2, tokenizer_eos=3, listen=4, tts_bos=5, forbidden=(1, 9)),
)


class Wire:
    """Carries tensors from a sender to a receiver in one process."""

    def __init__(self) -> None:
        self.sent: deque[torch.Tensor] = deque()

    def send(self, x: torch.Tensor) -> None:
        self.sent.append(x.clone())

    def receive(self, x: torch.Tensor) -> torch.Tensor:
        came = self.sent.popleft()
        assert (came.shape, came.dtype) == (x.shape, x.dtype)
        return x.copy_(came)


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> tuple[thinker_wire.StepSender, thinker_wire.StepReceiver]:
    wire = Wire()
    monkeypatch.setattr(ParallelGroup, "send", lambda group, x: wire.send(x))
    monkeypatch.setattr(ParallelGroup, "receive", lambda group, x: wire.receive(x))
    monkeypatch.setattr(ParallelGroup, "agree", lambda group, x: wire.receive(x) if group.rank else wire.send(x))
    return (
        thinker_wire.StepSender(ParallelGroup(rank=0, size=2), stream=STREAM, dtype=torch.float32),
        thinker_wire.StepReceiver(ParallelGroup(rank=1, size=2), hidden_size=4, stream=STREAM, dtype=torch.float32),
    )


def test_a_launch_arrives_as_it_was_sent(
    ends: tuple[thinker_wire.StepSender, thinker_wire.StepReceiver],
) -> None:
    sender, receiver = ends
    sender.send_step(STEP)
    came = receiver.receive()
    assert isinstance(came, StepInput)
    assert [part.start for part in came.media] == [1]
    assert torch.equal(came.media[0].rows, STEP.media[0].rows)
    for name in ("kind", "decodes", "bucket", "prefills", "moves", "table_updates", "keeps_hidden", "duplex_ids"):
        assert getattr(came, name) == getattr(STEP, name)


def test_cuts_and_the_end_arrive_too(ends: tuple[thinker_wire.StepSender, thinker_wire.StepReceiver]) -> None:
    sender, receiver = ends
    plan = CutPlan((3, 4), (8, 9), (-2, -2), (BlockMove(True, ((1, 0),)),))
    sender.send_cut(plan)
    sender.send_stop()
    assert receiver.receive() == plan
    assert receiver.receive() is None


def test_alone_nothing_is_sent() -> None:
    sender = thinker_wire.StepSender(ALONE, stream=STREAM, dtype=torch.float32)
    sender.send_step(STEP)
    sender.send_stop()
