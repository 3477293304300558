"""Launches on their way from rank 0 to the other ranks of a tensor-parallel Thinker, as plain numbers.

Only rank 0 decides: what is finished when differs between devices, and ranks that disagreed about a launch would wait
for each other forever.
"""

from collections.abc import Callable, Iterator
from enum import IntEnum

import torch
from torch import Tensor

from antiphon.engine.block_table import BlockMove, CutPlan
from antiphon.engine.device_stream import DeviceStream
from antiphon.engine.duplex_seat_rule import DuplexIds, DuplexSeatRule
from antiphon.engine.text_sampler import SampleKind
from antiphon.engine.text_sampler_state import SeatRule
from antiphon.engine.thinker_step import MediaPart, PrefillRow, StepInput
from antiphon.layers.parallel import ParallelGroup


class _Order(IntEnum):
    STOP = 0
    STEP = 1
    CUT = 2


class StepSender:
    """Rank 0's side. Alone it does nothing."""

    def __init__(self, group: ParallelGroup, *, stream: DeviceStream, dtype: torch.dtype) -> None:
        self._group, self._stream, self._dtype = group, stream, dtype

    def send_step(self, step: StepInput) -> None:
        if self._group.size > 1:
            numbers: list[int] = []
            floats: list[float] = []
            _write_step(step, numbers, floats)
            self._send(_Order.STEP, numbers, floats)
            with self._stream.active():
                for part in step.media:
                    self._group.agree(part.rows.to(self._stream.device, self._dtype).contiguous())

    def send_cut(self, plan: CutPlan) -> None:
        if self._group.size > 1:
            numbers: list[int] = []
            for part in (plan.sources, plan.destinations, plan.shifts):
                _put(numbers, part)
            _write_moves(plan.moves, numbers)
            self._send(_Order.CUT, numbers, [])

    def send_stop(self) -> None:
        if self._group.size > 1:
            self._send(_Order.STOP, [], [])

    def _send(self, order: _Order, numbers: list[int], floats: list[float]) -> None:
        self._group.send(torch.tensor([order, len(numbers), len(floats)], dtype=torch.int64))
        if numbers:
            self._group.send(torch.tensor(numbers, dtype=torch.int64))
        if floats:
            self._group.send(torch.tensor(floats, dtype=torch.float64))


class StepReceiver:
    """The side of the ranks after 0."""

    def __init__(self, group: ParallelGroup, *, hidden_size: int, stream: DeviceStream, dtype: torch.dtype) -> None:
        self._group, self._hidden_size, self._stream, self._dtype = group, hidden_size, stream, dtype

    def receive(self) -> StepInput | CutPlan | None:
        """Wait for the next order; None is the end."""
        head = torch.empty(3, dtype=torch.int64)
        self._group.receive(head)
        order, num_numbers, num_floats = head.tolist()
        numbers = torch.empty(num_numbers, dtype=torch.int64)
        floats = torch.empty(num_floats, dtype=torch.float64)
        for part in (numbers, floats):
            if len(part):
                self._group.receive(part)
        if order == _Order.STOP:
            return None
        reader = iter(numbers.tolist())
        if order == _Order.CUT:
            return CutPlan(_get(reader), _get(reader), _get(reader), _read_moves(reader))
        return _read_step(reader, iter(floats.tolist()), self._receive_rows)

    def _receive_rows(self, num_rows: int) -> Tensor:
        with self._stream.active():
            rows = torch.empty(num_rows, self._hidden_size, dtype=self._dtype, device=self._stream.device)
            return self._group.agree(rows)


def _put(numbers: list[int], values: tuple[int, ...]) -> None:
    numbers.append(len(values))
    numbers += values


def _get(reader: Iterator[int]) -> tuple[int, ...]:
    return tuple(next(reader) for _ in range(next(reader)))


def _write_moves(moves: tuple[BlockMove, ...], numbers: list[int]) -> None:
    numbers.append(len(moves))
    for move in moves:
        numbers.append(move.to_host)
        _put(numbers, tuple(number for pair in move.pairs for number in pair))


def _read_moves(numbers: Iterator[int]) -> tuple[BlockMove, ...]:
    moves = []
    for _ in range(next(numbers)):
        to_host, pairs = bool(next(numbers)), _get(numbers)
        moves.append(BlockMove(to_host, tuple(zip(pairs[::2], pairs[1::2], strict=True))))
    return tuple(moves)


def _write_step(step: StepInput, numbers: list[int], floats: list[float]) -> None:
    numbers += (step.kind, step.bucket, step.keeps_hidden)
    _put(numbers, step.decodes)
    _put(numbers, tuple(number for update in step.table_updates for number in update))
    _write_moves(step.moves, numbers)
    numbers.append(len(step.prefills))
    for row in step.prefills:
        numbers += (row.start, row.seat)
        _put(numbers, row.ids)
        _put(numbers, row.blocks)
        if row.rule is not None:
            numbers.append(isinstance(row.rule, DuplexSeatRule))
        if isinstance(row.rule, DuplexSeatRule):
            _write_duplex_rule(row.rule, numbers, floats)
        elif row.rule is not None:
            _write_rule(row.rule, numbers, floats)
    numbers.append(len(step.media))
    for part in step.media:
        numbers += (part.start, len(part.rows))
    _put(numbers, () if step.duplex_ids is None else (*step.duplex_ids.roles, *step.duplex_ids.forbidden))


def _read_step(numbers: Iterator[int], floats: Iterator[float], receive_rows: Callable[[int], Tensor]) -> StepInput:
    kind, bucket, keeps_hidden = next(numbers), next(numbers), next(numbers)
    decodes, updates = _get(numbers), _get(numbers)
    moves = _read_moves(numbers)
    prefills = []
    for _ in range(next(numbers)):
        start, seat = next(numbers), next(numbers)
        ids, blocks = _get(numbers), _get(numbers)
        rule = _read_any_rule(numbers, floats) if seat >= 0 else None
        prefills.append(PrefillRow(ids=ids, start=start, blocks=blocks, seat=seat, rule=rule))
    sizes = [(next(numbers), next(numbers)) for _ in range(next(numbers))]
    duplex_ids = _get(numbers)
    return StepInput(
        kind=SampleKind(kind),
        decodes=decodes,
        bucket=bucket,
        prefills=tuple(prefills),
        media=tuple(MediaPart(start, receive_rows(num_rows)) for start, num_rows in sizes),
        moves=moves,
        table_updates=tuple(zip(updates[::3], updates[1::3], updates[2::3], strict=True)),
        keeps_hidden=bool(keeps_hidden),
        duplex_ids=_read_duplex_ids(duplex_ids),
    )


def _read_duplex_ids(ids: tuple[int, ...]) -> DuplexIds | None:
    if not ids:
        return None
    chunk_eos, turn_eos, tokenizer_eos, listen, tts_bos, *forbidden = ids
    return DuplexIds(
        chunk_eos=chunk_eos,
        turn_eos=turn_eos,
        tokenizer_eos=tokenizer_eos,
        listen=listen,
        tts_bos=tts_bos,
        forbidden=tuple(forbidden),
    )


def _read_any_rule(numbers: Iterator[int], floats: Iterator[float]) -> SeatRule | DuplexSeatRule:
    return _read_duplex_rule(numbers, floats) if next(numbers) else _read_rule(numbers, floats)


def _write_duplex_rule(rule: DuplexSeatRule, numbers: list[int], floats: list[float]) -> None:
    floats += (rule.temperature, rule.top_p, rule.listen_prob_scale, rule.repetition_penalty, rule.length_penalty)
    numbers += (rule.is_greedy, rule.is_turn_open, rule.top_k, rule.listen_top_k, rule.penalty_window)
    numbers += (rule.seed, rule.draw_step)
    _put(numbers, rule.history)


def _read_duplex_rule(numbers: Iterator[int], floats: Iterator[float]) -> DuplexSeatRule:
    temperature, top_p, listen_prob_scale, repetition_penalty, length_penalty = (next(floats) for _ in range(5))
    is_greedy, is_turn_open, top_k, listen_top_k, penalty_window, seed, draw_step = (next(numbers) for _ in range(7))
    return DuplexSeatRule(
        is_greedy=bool(is_greedy),
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        listen_prob_scale=listen_prob_scale,
        listen_top_k=listen_top_k,
        repetition_penalty=repetition_penalty,
        penalty_window=penalty_window,
        length_penalty=length_penalty,
        seed=seed,
        draw_step=draw_step,
        is_turn_open=bool(is_turn_open),
        history=_get(numbers),
    )


def _write_rule(rule: SeatRule, numbers: list[int], floats: list[float]) -> None:
    floats += (rule.temperature, rule.top_p, rule.min_p)
    floats += (rule.repetition_penalty, rule.frequency_penalty, rule.presence_penalty)
    numbers += (rule.top_k, rule.seed, rule.draw_step, rule.turn_step)
    _put(numbers, tuple(number for ban in rule.banned for number in ban))
    _put(numbers, rule.generated)


def _read_rule(numbers: Iterator[int], floats: Iterator[float]) -> SeatRule:
    temperature, top_p, min_p, repetition, frequency, presence = (next(floats) for _ in range(6))
    top_k, seed, draw_step, turn_step = (next(numbers) for _ in range(4))
    bans, generated = _get(numbers), _get(numbers)
    return SeatRule(
        temperature=temperature,
        top_p=top_p,
        min_p=min_p,
        repetition_penalty=repetition,
        frequency_penalty=frequency,
        presence_penalty=presence,
        top_k=top_k,
        seed=seed,
        banned=tuple(zip(bans[::2], bans[1::2], strict=True)),
        draw_step=draw_step,
        turn_step=turn_step,
        generated=generated,
    )
