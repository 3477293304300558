"""One launch of the Thinker in plain numbers: what the engine decides, and what every rank carries out."""

from dataclasses import dataclass

from torch import Tensor

from antiphon.engine.block_table import BlockMove
from antiphon.engine.duplex_seat_rule import DuplexIds, DuplexSeatRule
from antiphon.engine.text_sampler import SampleKind
from antiphon.engine.text_sampler_state import SeatRule


@dataclass(frozen=True)
class MediaPart:
    """Rows [n, hidden] that replace the embeddings of prefill tokens [start, start + n) of a launch."""

    start: int
    rows: Tensor


@dataclass(frozen=True, kw_only=True)
class PrefillRow:
    """Tokens of one sequence at positions *start* onwards; *blocks* hold everything up to the last of them.

    Attributes:
        seat: where the drawn token and what follows from it are kept; −1 if the row draws nothing.
        rule: the seat's sampling rule; None without a seat.
        keep_from: the first of *ids* whose hidden state is kept; None: no one's. Of interest to rank 0 only.
    """

    ids: tuple[int, ...]
    start: int
    blocks: tuple[int, ...]
    seat: int = -1
    rule: SeatRule | DuplexSeatRule | None = None
    keep_from: int | None = None


@dataclass(frozen=True, kw_only=True)
class StepInput:
    """What one launch does, in this order: moves, seat updates, forward pass, draws.

    Attributes:
        decodes: seats that forward the token drawn last and draw the next.
        bucket: rows of the captured step that runs *decodes*; 0 if prefill rows go along, which is not captured.
        table_updates: (seat, place in its table, block) of blocks that decoding sequences were given.
        media: parts over the prefill tokens, counted from the first token of the first prefill row.
        keeps_hidden: the hidden state of each row's last token is wanted.
        duplex_ids: once, before the first rule of a duplex session.
    """

    kind: SampleKind
    decodes: tuple[int, ...]
    bucket: int = 0
    prefills: tuple[PrefillRow, ...] = ()
    media: tuple[MediaPart, ...] = ()
    moves: tuple[BlockMove, ...] = ()
    table_updates: tuple[tuple[int, int, int], ...] = ()
    keeps_hidden: bool = False
    duplex_ids: DuplexIds | None = None
