"""Carries launches out on the device: prefills plainly, decode steps as captured graphs, draws included."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import accumulate

import torch
from torch import Tensor

from antiphon.engine.block_table import CutPlan
from antiphon.engine.counters import Counters
from antiphon.engine.device_stream import DeviceStream, Fence
from antiphon.engine.graph_cache import GraphCache
from antiphon.engine.paged_cache import PagedCache, upload
from antiphon.engine.settings import ThinkerSettings
from antiphon.engine.text_sampler import SampleKind
from antiphon.engine.thinker_model import TextWeights
from antiphon.engine.thinker_seats import ThinkerSeats
from antiphon.engine.thinker_step import PrefillRow, StepInput
from antiphon.layers.paged_attention import PagedAttend, can_use_kernels
from antiphon.layers.paged_batch import PagedBatch

_WARM_PREFILLS = (1, 64)  # each size of the extend kernel's query tile once
# A duplex rule that needs a sort is odd enough to run plainly.
_DUPLEX_KINDS = (SampleKind.DUPLEX, SampleKind.DUPLEX_TOP_K)
_TEXT_KINDS = tuple(kind for kind in SampleKind if not kind.has_duplex)
POISONED = -1  # drawn by a row whose hidden state is not finite


@dataclass(frozen=True)
class StepResult:
    """What a launch leaves behind. Readable once *fence* has passed.

    Attributes:
        drawn: [decodes + prefill rows] int64 on the host, ids or decisions of duplex sessions (see `decision_rows`),
            `POISONED` where the row is not finite; what a row that draws nothing holds counts only for that.
        hidden: [decodes + prefill rows, hidden] on the device: of the last token that each row forwarded; None if not
            asked for.
        given: by the index of a prefill row among them all: hidden states [n, hidden] of its tokens from `keep_from`
            on.
    """

    fence: Fence
    drawn: Tensor
    hidden: Tensor | None
    given: Mapping[int, Tensor]


class ThinkerRunner:
    """One rank's device work. All ranks of a group run the same launches in the same order."""

    def __init__(
        self,
        weights: TextWeights,
        settings: ThinkerSettings,
        *,
        dtype: torch.dtype,
        counters: Counters,
        stream: DeviceStream,
    ) -> None:
        self._weights, self._stream, self._counters = weights, stream, counters
        device = stream.device
        config = weights.config.llm
        with stream.active():
            self.cache = PagedCache(
                config,
                num_kv_heads=weights.decoder.num_kv_heads,
                num_blocks=settings.kv_cache_blocks,
                block_size=settings.block_size,
                num_host_blocks=settings.host_spill_blocks,
                rope=weights.decoder.rope,
                dtype=dtype,
                stream=stream,
            )
            self._seats = ThinkerSeats(
                settings.max_num_seqs,
                max_blocks=-(-settings.max_model_len // settings.block_size),
                scratch_block=self.cache.scratch_block,
                vocab_size=weights.vocab_size,
                device=device,
            )
            most = max(*settings.graph_batches, settings.max_num_seqs)
            self._batch_seats = torch.full((most,), self._seats.padding, dtype=torch.int64, device=device)
            self._batch_starts = torch.arange(most + 1, dtype=torch.int32, device=device)
            self._drawn = torch.zeros(most, dtype=torch.int64, device=device)
            self._hidden = torch.zeros(most, config.hidden_size, dtype=dtype, device=device)
        self._in_batch: tuple[int, ...] = ()  # what `_batch_seats` holds
        self._use_kernels = settings.use_triton and can_use_kernels(device)
        if settings.use_triton and not self._use_kernels:
            counters.fall_back("thinker_triton", "no kernels on this device")
        # The torch twin reads lengths on the host, so it cannot be captured.
        can_capture = settings.use_graphs and self._use_kernels
        self._graphs = GraphCache("thinker", stream, counters, enabled=can_capture)
        self._buckets = settings.graph_batches if can_capture else ()
        # The largest first, so that the smaller ones find their memory in the pool.
        self._warm_kinds = _TEXT_KINDS + (_DUPLEX_KINDS if settings.num_audio_streams else ())
        self._warm_batches = sorted(settings.graph_batches, reverse=True) if self._use_kernels else [1]

    def bucket_for(self, num_rows: int) -> int:
        """Rows of the captured step that holds *num_rows*; their own number if none was captured."""
        return min((bucket for bucket in self._buckets if bucket >= num_rows), default=num_rows)

    def warm_up(self, report: Callable[[str], None]) -> None:
        """Capture a decode step for each bucket and kind, and load the prefill kernels. Writes to scratch only."""
        for bucket in self._warm_batches:
            for kind in self._warm_kinds:
                report(f"thinker: decode step, {bucket} rows, {kind.name.lower()}")
                self._graphs.prepare((bucket, kind), partial(self._decode_step, bucket, kind))
        for num_tokens in _WARM_PREFILLS:
            report(f"thinker: prefill of {num_tokens} tokens")
            blocks = (self.cache.scratch_block,) * -(-num_tokens // self.cache.block_size)
            row = PrefillRow(ids=(0,) * num_tokens, start=0, blocks=blocks)
            self.run(StepInput(kind=SampleKind.GREEDY, decodes=(), prefills=(row,))).fence.wait()

    def run(self, step: StepInput) -> StepResult:
        """Issue one launch; returns at once on a GPU."""
        if self._use_kernels:
            self._counters.use("thinker_triton")
        with self._stream.active():
            self.cache.move(step.moves)
            if step.duplex_ids is not None:
                self._seats.duplex.set_ids(step.duplex_ids)
            self._seats.update_tables(step.table_updates)
            given: dict[int, Tensor] = {}
            if step.prefills:
                drawn, hidden = self._mixed_step(step, given)
            else:
                drawn, hidden = self._decode(step)
            num_rows = len(step.decodes) + len(step.prefills)
            kept = hidden[:num_rows].clone() if step.keeps_hidden else None
            drawn = drawn[:num_rows]
            if drawn.is_cuda:
                landing = torch.empty(drawn.shape, dtype=drawn.dtype, pin_memory=True)
                landing.copy_(drawn, non_blocking=True)
            else:
                landing = drawn.clone()
            return StepResult(self._stream.fence(), landing, kept, given)

    def cut(self, plan: CutPlan) -> None:
        """Move rows within the cache."""
        with self._stream.active():
            self.cache.move(plan.moves)
            self.cache.cut(plan)

    def _decode(self, step: StepInput) -> tuple[Tensor, Tensor]:
        if not step.decodes:
            return self._drawn, self._hidden
        padded = step.decodes + (self._seats.padding,) * (step.bucket - len(step.decodes))
        if padded != self._in_batch[: len(padded)]:
            self._batch_seats[: len(padded)] = upload(padded, torch.int64, self._stream.device)
            self._in_batch = padded
        self._graphs.run((step.bucket, step.kind), partial(self._decode_step, step.bucket, step.kind))
        return self._drawn, self._hidden

    def _decode_step(self, num_rows: int, kind: SampleKind) -> None:
        """What is captured: forward the last token of each row in the batch, draw the next, advance."""
        seats = self._batch_seats[:num_rows]
        positions, tables = self._seats.position[seats], self._seats.tables[seats]
        cos, sin = self._weights.decoder.rope.cos_sin(positions)
        batch = PagedBatch(
            kv_index=self._kv_index(tables, positions),
            cos=cos,
            sin=sin,
            query_start=self._batch_starts[: num_rows + 1],
            context_lens=(positions + 1).to(torch.int32),
            tables=tables,
            num_decodes=num_rows,
            max_query_len=1,
        )
        hidden = self._forward(self._weights.embed(self._seats.last_token[seats]), batch)
        self._hidden[:num_rows] = hidden
        self._drawn[:num_rows] = self._draw(hidden, seats, kind)

    def _mixed_step(self, step: StepInput, given: dict[int, Tensor]) -> tuple[Tensor, Tensor]:
        """Prefill rows, with decode rows in front. Fills *given* as `StepResult` has it."""
        device, num_decodes = self._stream.device, len(step.decodes)
        lengths = [len(row.ids) for row in step.prefills]
        contexts = [row.start + len(row.ids) for row in step.prefills]
        max_blocks = max(len(row.blocks) for row in step.prefills)
        new_tables = upload(
            [b for row in step.prefills for b in row.blocks + (0,) * (max_blocks - len(row.blocks))],
            torch.int32,
            device,
        ).view(-1, max_blocks)
        drawing = [index for index, row in enumerate(step.prefills) if row.seat >= 0]
        if drawing:
            rows = [step.prefills[index] for index in drawing]
            self._seats.take(
                [row.seat for row in rows],
                [contexts[index] - 1 for index in drawing],
                new_tables[upload(drawing, torch.int64, device)],
                [row.rule for row in rows if row.rule is not None],
            )
        decoding = upload(step.decodes, torch.int64, device)
        decode_positions, decode_tables = self._seats.position[decoding], self._seats.tables[decoding]
        packed = upload(
            [
                *(token for row in step.prefills for token in row.ids),
                *(row.start + offset for row in step.prefills for offset in range(len(row.ids))),
                *(index for index, length in enumerate(lengths) for _ in range(length)),
                *contexts,
                *_sums(lengths, num_decodes),
            ],
            torch.int64,
            device,
        )
        total = sum(lengths)
        ids, new_positions, owners, new_contexts, ends = torch.split(
            packed, [total, total, total, len(lengths), len(lengths)]
        )
        kv_index = self._kv_index(new_tables[owners], new_positions)
        positions = torch.cat((decode_positions, new_positions))
        cos, sin = self._weights.decoder.rope.cos_sin(positions)
        batch = PagedBatch(
            kv_index=torch.cat((self._kv_index(decode_tables, decode_positions), kv_index)),
            cos=cos,
            sin=sin,
            query_start=torch.cat((self._batch_starts[: num_decodes + 1], ends.to(torch.int32))),
            context_lens=torch.cat((decode_positions + 1, new_contexts)).to(torch.int32),
            tables=_stack_tables(decode_tables, new_tables),
            num_decodes=num_decodes,
            max_query_len=max(lengths),
        )
        embeds = self._weights.embed(torch.cat((self._seats.last_token[decoding], ids)))
        for part in step.media:
            start = num_decodes + part.start
            embeds[start : start + len(part.rows)] = part.rows.to(embeds, non_blocking=True)
        hidden = self._forward(embeds, batch)
        for index, (row, end) in enumerate(zip(step.prefills, accumulate(lengths), strict=True)):
            if row.keep_from is not None:
                start = num_decodes + end - len(row.ids)
                given[num_decodes + index] = hidden[start + row.keep_from : num_decodes + end].clone()
        hidden = hidden[batch.query_start[1:].long() - 1]
        # Rows that draw nothing follow the padding's rule; only whether they are finite is of interest.
        seats = upload(
            [*step.decodes, *(self._seats.padding if row.seat < 0 else row.seat for row in step.prefills)],
            torch.int64,
            device,
        )
        return self._draw(hidden, seats, step.kind), hidden

    def _forward(self, embeds: Tensor, batch: PagedBatch) -> Tensor:
        eps = self._weights.config.llm.rms_norm_eps
        attend = PagedAttend(self.cache.pages, batch, eps=eps, use_kernels=self._use_kernels)
        return self._weights.decoder.forward(embeds, attend)

    def _draw(self, hidden: Tensor, seats: Tensor, kind: SampleKind) -> Tensor:
        """Draw for rows [B, hidden] and advance their seats."""
        drawn = self._seats.draw(self._weights.logits(hidden), seats, kind, use_kernels=self._use_kernels)
        drawn = self._weights.group.agree(drawn)
        is_finite = hidden.isfinite().all(-1)
        # A poisoned row goes on with a harmless token until the host has seen it.
        self._seats.advance(seats, torch.where(is_finite, drawn, 0), kind, use_kernels=self._use_kernels)
        return torch.where(is_finite, drawn, POISONED)

    def _kv_index(self, tables: Tensor, positions: Tensor) -> Tensor:
        """Where position i of table row i lies: [T, blocks], [T] → [T] int64."""
        size = self.cache.block_size
        block = tables.gather(1, (positions // size)[:, None])[:, 0].long()
        return block * size + positions % size


def _sums(lengths: list[int], start: int) -> list[int]:
    ends = []
    for length in lengths:
        start += length
        ends.append(start)
    return ends


def _stack_tables(first: Tensor, second: Tensor) -> Tensor:
    """Tables of decode and prefill rows, as wide as the wider."""
    if not len(first):
        return second
    stacked = first.new_zeros(len(first) + len(second), max(first.shape[1], second.shape[1]))
    stacked[: len(first), : first.shape[1]] = first
    stacked[len(first) :, : second.shape[1]] = second
    return stacked
