from antiphon.core.handoff import Handoff
from antiphon.core.sampling import SamplingParams
from antiphon.pipeline.messages import Abort, CodecChunk, TalkerRequest
from antiphon.pipeline.processes.piece_gate import PieceGate


def request(name: str) -> TalkerRequest:
    return TalkerRequest(
        request_id=name, epoch=0, handoff=Handoff.SPAN, sampling=SamplingParams(), seed=0, deadline_s=0.0
    )


def piece(name: str, number: int = 0) -> CodecChunk:
    return CodecChunk(request_id=name, epoch=0, codes=(number,), is_last=False)


def gate() -> tuple[PieceGate, list[object]]:
    sent: list[object] = []
    return PieceGate(sent.append), sent


def test_pieces_that_overtook_their_request_follow_it_in_order() -> None:
    made, sent = gate()
    made.extend(piece("a", 1))
    made.extend(piece("a", 2))
    assert sent == []
    made.admit(request("a"))
    made.extend(piece("a", 3))
    assert sent == [request("a"), piece("a", 1), piece("a", 2), piece("a", 3)]
    assert made.num_held == 0


def test_pieces_of_what_is_over_are_dropped() -> None:
    made, sent = gate()
    made.admit(request("a"))
    made.release("a")
    made.extend(piece("a"))
    made.abort(Abort(request_id="b", epoch=0))
    made.extend(piece("b"))
    assert sent == [request("a"), Abort(request_id="b", epoch=0)]
    assert made.num_held == 0


def test_an_id_may_be_used_again() -> None:
    made, sent = gate()
    for _ in range(2):
        made.admit(request("a"))
        made.extend(piece("a"))
        made.release("a")
    assert len(sent) == 4


def test_what_is_held_for_strangers_is_bounded() -> None:
    made, _ = gate()
    for number in range(1000):
        for part in range(100):
            made.extend(piece(str(number), part))
    assert made.num_held == 256 * 64
