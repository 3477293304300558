import torch

from antiphon.engine.counters import MAX_OBSERVATIONS, Counters, Observation
from antiphon.pipeline.hand_overs import note_local, note_received, note_sent, piece_bytes
from antiphon.pipeline.messages import CodecChunk, HandOver, SpokenPiece, UnitCodes
from antiphon.pipeline.processes.layout import WorkerPlan, join_workers
from antiphon.pipeline.stage_facts import local_gauges, worker_gauges, worker_observations

STAGES = ("thinker", "talker", "code2wav")
LAYOUT = join_workers(
    STAGES,
    (
        WorkerPlan(name="w0", stages=("thinker", "code2wav"), device="cpu"),
        WorkerPlan(name="w1", stages=("talker",), device="cpu"),
        WorkerPlan(name="w2", stages=("talker",), device="cpu"),
    ),
)
CHUNK = CodecChunk(request_id="r", epoch=0, codes=(1, 2, 3), is_last=False)


def test_a_piece_is_as_large_as_its_ids_and_rows() -> None:
    rows = torch.zeros(2, 8, dtype=torch.bfloat16)
    assert piece_bytes(SpokenPiece(request_id="r", epoch=0, ids=(1, 2), rows=rows, is_last=True)) == 16 + 32
    assert piece_bytes(CHUNK) == 24
    unit = UnitCodes(request_id="r", epoch=0, number=0, chunks=((1,), (2, 3)), ends_turn=False)
    assert piece_bytes(unit) == 24


def test_a_hand_over_within_a_worker_sends_nothing() -> None:
    counters = Counters()
    note_local(counters, CHUNK, "code2wav", took_s=0.5)
    values = {item.family: item.value for item in counters.take_observations()}
    assert values["transfer_size_bytes"] == 24
    assert (values["transfer_tx_s"], values["transfer_in_flight_s"], values["transfer_rx_s"]) == (0.0, 0.0, 0.5)
    assert counters.take_observations() == ()


def test_both_ends_of_an_edge_note_their_half() -> None:
    counters = Counters()
    note_sent(counters, CHUNK, "w1.w0.code2wav", took_s=0.25)
    note_received(counters, HandOver(queued_s=1.0, sent_s=2.0), "w1.w0.code2wav", arrived_s=3.0, took_s=0.5)
    seen = [("w1" if index < 2 else "w0", item) for index, item in enumerate(counters.take_observations())]
    placed = {item.family: item for item in worker_observations(LAYOUT, seen)}
    assert {name: item.value for name, item in placed.items()} == {
        "transfer_size_bytes": 24,
        "transfer_tx_s": 0.25,
        "transfer_in_flight_s": 1.0,
        "transfer_rx_s": 0.5,
        "kv_wait_s": 2.5,
    }
    assert {(item.stage, item.from_replica, item.replica, item.connector) for item in placed.values()} == {
        (2, 0, 0, "shm")
    }


def test_what_a_replica_notes_of_itself_bears_its_number() -> None:
    placed = worker_observations(LAYOUT, [("w2", Observation("stage_in_queue_s", 1.0, "talker"))])
    assert [(item.stage, item.replica) for item in placed] == [(1, 1)]


def test_notes_nobody_takes_are_bounded() -> None:
    counters = Counters()
    for number in range(MAX_OBSERVATIONS + 5):
        counters.observe("x", number, "talker")
    taken = counters.take_observations()
    assert (len(taken), taken[0].value) == (MAX_OBSERVATIONS, 5)


def test_gauges_are_told_apart_by_stage_and_replica() -> None:
    local = local_gauges({"commands": 1.0, "thinker.requests": 2.0, "talker.requests": 3.0})
    assert [(item.stage, item.replica, dict(item.values)) for item in local] == [
        (0, 0, {"requests": 2.0}),
        (1, 0, {"requests": 3.0}),
    ]
    said = {"w0": {"thinker.requests": 1.0, "code2wav.requests": 2.0}, "w1": {}, "w2": {"talker.requests": 3.0}}
    assert [(item.stage, item.replica) for item in worker_gauges(LAYOUT, said)] == [(0, 0), (2, 0), (1, 1)]
