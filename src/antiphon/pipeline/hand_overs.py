"""What is noted of each hand-over from stage to stage: how large it was, and what it waited for.

One note for each piece, never for each token. `transfer_*` are of one hop; `kv_wait_s` is all that a finished piece had
to wait until the next stage had it.
"""

from antiphon.engine.counters import Counters
from antiphon.pipeline.messages import CodecChunk, HandOver, SpokenPiece, SpokenUnit, StagePiece

_ID_BYTES = 8


def piece_bytes(piece: StagePiece) -> int:
    """Bytes of the ids and rows that *piece* carries."""
    if isinstance(piece, (SpokenPiece, SpokenUnit)):
        return _ID_BYTES * len(piece.ids) + piece.rows.numel() * piece.rows.element_size()
    if isinstance(piece, CodecChunk):
        return _ID_BYTES * len(piece.codes)
    return _ID_BYTES * sum(map(len, piece.chunks))


def note_local(counters: Counters, piece: StagePiece, stage: str, *, took_s: float) -> None:
    """*piece* was given to *stage* of the same worker: by pointer, so nothing is sent and nothing under way."""
    counters.observe("transfer_size_bytes", piece_bytes(piece), stage)
    counters.observe("transfer_tx_s", 0.0, stage)
    counters.observe("transfer_in_flight_s", 0.0, stage)
    counters.observe("transfer_rx_s", took_s, stage)
    counters.observe("kv_wait_s", took_s, stage)


def note_sent(counters: Counters, piece: StagePiece, edge: str, *, took_s: float) -> None:
    """The producer has put *piece* on *edge*, which took so long: encoding, copying, and waiting for room."""
    counters.observe("transfer_size_bytes", piece_bytes(piece), _stage_of(edge), edge)
    counters.observe("transfer_tx_s", took_s, _stage_of(edge), edge)


def note_received(counters: Counters, way: HandOver, edge: str, *, arrived_s: float, took_s: float) -> None:
    """The consumer found a piece at *arrived_s*, on the clock of the host, and had it ready after *took_s* more."""
    stage = _stage_of(edge)
    counters.observe("transfer_in_flight_s", max(0.0, arrived_s - way.sent_s), stage, edge)
    counters.observe("transfer_rx_s", took_s, stage, edge)
    counters.observe("kv_wait_s", max(0.0, arrived_s + took_s - way.queued_s), stage, edge)


def _stage_of(edge: str) -> str:
    return edge.rpartition(".")[2]  # see `EdgePlan.name`
