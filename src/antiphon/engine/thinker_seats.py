"""The device's memory of the sequences that decode: one row a seat, advanced by the captured step itself."""

from collections.abc import Sequence

import torch
from torch import Tensor

from antiphon.engine.duplex_sampler import advance_rows, decide_rows
from antiphon.engine.duplex_sampler_state import DuplexState
from antiphon.engine.duplex_seat_rule import DuplexSeatRule
from antiphon.engine.paged_cache import upload
from antiphon.engine.text_sampler import SampleKind, draw
from antiphon.engine.text_sampler_state import SamplerState, SeatRule
from antiphon.layers.decision_rows import ID_MASK


class ThinkerSeats:
    """Last token, its position, block table and sampling state of every seat.

    The row after the last seat is the padding's: it writes to the scratch block at position 0 and never advances.

    Attributes:
        last_token: [S + 1] int64, drawn and not forwarded yet.
        position: [S + 1] int64, of that token.
        tables: [S + 1, blocks] int32.
        sampler: rules and counters of texts.
        duplex: rules and state of sessions.
    """

    def __init__(
        self, num_seats: int, *, max_blocks: int, scratch_block: int, vocab_size: int, device: torch.device
    ) -> None:
        self.device, self.padding = device, num_seats
        self.last_token = torch.zeros(num_seats + 1, dtype=torch.int64, device=device)
        self.position = torch.zeros(num_seats + 1, dtype=torch.int64, device=device)
        self.tables = torch.full((num_seats + 1, max_blocks), scratch_block, dtype=torch.int32, device=device)
        self.sampler = SamplerState(num_seats + 1, vocab_size, device)
        self.duplex = DuplexState(num_seats + 1, vocab_size, device)
        self._stride = torch.ones(num_seats + 1, dtype=torch.int64, device=device)
        self._stride[num_seats] = 0

    def take(
        self, seats: Sequence[int], last: Sequence[int], tables: Tensor, rules: Sequence[SeatRule | DuplexSeatRule]
    ) -> None:
        """Set seats up before the launch that draws their first token.

        Args:
            seats: numbers of the seats.
            last: position of the last prefilled token of each.
            tables: [len(seats), blocks] int32 on the device.
            rules: how they draw.
        """
        index = upload(seats, torch.int64, self.device)
        self.position[index] = upload(last, torch.int64, self.device)
        self.tables[index, : tables.shape[1]] = tables
        texts = [(seat, rule) for seat, rule in zip(seats, rules, strict=True) if isinstance(rule, SeatRule)]
        sessions = [(seat, rule) for seat, rule in zip(seats, rules, strict=True) if isinstance(rule, DuplexSeatRule)]
        if texts:
            self.sampler.load([seat for seat, _ in texts], [rule for _, rule in texts])
            self.duplex.leave([seat for seat, _ in texts])
        if sessions:
            self.duplex.load([seat for seat, _ in sessions], [rule for _, rule in sessions])

    def update_tables(self, updates: Sequence[tuple[int, int, int]]) -> None:
        """Enter blocks, as (seat, place, block)."""
        if updates:
            numbers = upload([number for update in updates for number in update], torch.int64, self.device).view(-1, 3)
            self.tables[numbers[:, 0], numbers[:, 1]] = numbers[:, 2].to(torch.int32)

    def draw(self, logits: Tensor, seats: Tensor, kind: SampleKind, *, use_kernels: bool) -> Tensor:
        """What *seats* [B] draw from raw *logits* [B, V]: [B] int64, ids, or decisions of duplex sessions."""
        if not kind.has_duplex:
            return draw(logits, seats, self.sampler, kind)
        sorts_all = kind is SampleKind.DUPLEX_SORT
        decided = decide_rows(logits, seats, self.duplex, sorts_all=sorts_all, use_kernels=use_kernels)
        if kind.text_kind is None:
            return decided
        return torch.where(self.duplex.is_duplex[seats], decided, draw(logits, seats, self.sampler, kind.text_kind))

    def advance(self, seats: Tensor, drawn: Tensor, kind: SampleKind, *, use_kernels: bool) -> None:
        """What was *drawn* [B] comes next for *seats* [B]."""
        if kind.has_duplex:
            advance_rows(drawn, seats, self.duplex, use_kernels=use_kernels)
            drawn = drawn & ID_MASK
        if kind.text_kind is not None:
            self.sampler.advance(seats, drawn)
        self.last_token[seats] = drawn
        self.position[seats] = self.position[seats] + self._stride[seats]
