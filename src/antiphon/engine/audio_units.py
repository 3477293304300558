"""Encodes one unit of each of many audio streams in one launch, from caches that stay in place."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from antiphon.config.checkpoint import AudioConfig, ModelConfig
from antiphon.engine.counters import Counters
from antiphon.engine.device_stream import DeviceStream
from antiphon.engine.graph_cache import GraphCache
from antiphon.engine.paged_cache import upload
from antiphon.layers.audio_slots import STREAM_MEL_FRAMES, UNIT_FRAMES, AudioSlots, SlotAttend
from antiphon.layers.paged_attention import can_use_kernels


class UnitModel(Protocol):
    """A model that encodes the next unit of several streams: mel [B, bins, frames] → rows [B, n, hidden]."""

    @property
    def config(self) -> ModelConfig: ...

    def encode_audio_units(self, mel: Tensor, is_first: Tensor, lengths: Tensor, attend: SlotAttend) -> Tensor: ...


@dataclass(frozen=True, eq=False)
class UnitRow:
    """A unit of the stream in *slot*, which has *length* frames. *mel* is [bins, 102] if it is the first, else 104."""

    slot: int
    length: int
    is_first: bool
    mel: Tensor


def max_frames(config: AudioConfig) -> int:
    """Frames that a stream's cache can hold: it starts afresh before its positions run out."""
    return (config.max_positions - 1) // UNIT_FRAMES * UNIT_FRAMES


def audio_slot_bytes(config: AudioConfig, item_bytes: int) -> int:
    """Device memory of one stream's cache; numbers of *item_bytes*."""
    return 2 * config.num_layers * config.hidden_size * max_frames(config) * item_bytes


class AudioUnitRunner:
    """Owns the slots of *num_streams* streams; one slot more takes what padding rows write."""

    def __init__(
        self,
        model: UnitModel,
        *,
        num_streams: int,
        batches: Sequence[int],
        dtype: torch.dtype,
        counters: Counters,
        stream: DeviceStream,
        use_graphs: bool,
        use_triton: bool,
    ) -> None:
        self._model, self._stream, self._counters = model, stream, counters
        audio, device = model.config.audio, stream.device
        self._scratch = num_streams
        self._most = min(max(batches), num_streams)
        with stream.active():
            self._cache = AudioSlots(
                num_layers=audio.num_layers,
                num_slots=num_streams + 1,
                max_frames=max_frames(audio),
                num_heads=audio.num_heads,
                head_dim=audio.hidden_size // audio.num_heads,
                device=device,
                dtype=dtype,
            )
            self._mel = torch.zeros(self._most, audio.num_mel_bins, STREAM_MEL_FRAMES, device=device)
            # Slot, length, and whether it is the first unit, by row.
            self._rows = torch.tensor([[self._scratch, 0, 1]], device=device).repeat(self._most, 1)
            num_rows = UNIT_FRAMES // audio.pool_step
            self._out = torch.zeros(self._most, num_rows, model.config.llm.hidden_size, dtype=dtype, device=device)
        self._use_kernels = use_triton and can_use_kernels(device)
        # The torch twin reads lengths on the host, so it cannot be captured.
        can_capture = use_graphs and self._use_kernels
        self._graphs = GraphCache("audio_stream", stream, counters, enabled=can_capture)
        self._buckets = sorted({min(batch, self._most) for batch in batches}) if can_capture else []

    def warm_up(self, report: Callable[[str], None]) -> None:
        """Capture a launch for each bucket, the largest first. Writes to scratch only."""
        for bucket in reversed(self._buckets or [1]):
            report(f"thinker: audio of {bucket} streams")
            scratch = [(self._scratch, 0)] * bucket
            self._graphs.prepare(bucket, partial(self._encode, bucket, None if self._use_kernels else scratch))

    def run(self, units: Sequence[UnitRow]) -> tuple[Tensor, ...]:
        """Encode *units*, no slot twice; rows [n, hidden] for each. Returns at once on a GPU."""
        rows: list[Tensor] = []
        with self._stream.active():
            for start in range(0, len(units), self._most):
                rows += self._launch(units[start : start + self._most]).unbind()
        self._counters.use("audio_stream_batch", len(units))
        return tuple(rows)

    def _launch(self, units: Sequence[UnitRow]) -> Tensor:
        num_units = len(units)
        bucket = min((bucket for bucket in self._buckets if bucket >= num_units), default=num_units)
        numbers = [(unit.slot, unit.length, int(unit.is_first)) for unit in units]
        numbers += [(self._scratch, 0, 1)] * (bucket - num_units)
        self._rows[:bucket] = upload([n for row in numbers for n in row], torch.int64, self._rows.device).view(-1, 3)
        self._fill_mel([unit.mel for unit in units])
        pairs = None if self._use_kernels else [(slot, length) for slot, length, _ in numbers]
        self._graphs.run(bucket, partial(self._encode, bucket, pairs))
        return self._out[:num_units].clone()

    def _fill_mel(self, mels: Sequence[Tensor]) -> None:
        device = self._mel.device
        if any(mel.device != device for mel in mels) or device.type != "cuda":
            # One copy for all; torch keeps the page-locked memory until it is done.
            shape = (len(mels), *self._mel.shape[1:])
            landing = torch.zeros(shape, pin_memory=device.type == "cuda")
            for row, mel in zip(landing, mels, strict=True):
                row[:, STREAM_MEL_FRAMES - mel.shape[1] :] = mel
            self._mel[: len(mels)].copy_(landing, non_blocking=True)
            return
        for row, mel in zip(self._mel, mels, strict=False):
            row[:, : STREAM_MEL_FRAMES - mel.shape[1]] = 0.0
            row[:, STREAM_MEL_FRAMES - mel.shape[1] :] = mel

    def _encode(self, num_rows: int, host_rows: Sequence[tuple[int, int]] | None) -> None:
        """What is captured."""
        slots, lengths, is_first = self._rows[:num_rows].unbind(1)
        attend = SlotAttend(self._cache, slots.contiguous(), lengths.contiguous(), host_rows)
        self._out[:num_rows] = self._model.encode_audio_units(self._mel[:num_rows], is_first != 0, lengths, attend)
