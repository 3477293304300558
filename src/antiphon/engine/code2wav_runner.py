"""Runs Code2Wav for batches: fills inputs, picks shapes and buckets, replays graphs, brings samples back.

A launch is one flow graph (encoder and the whole ODE) over streams of one class and width, then a vocoder graph per
width of mel among them. Rows that pad a batch work on scratch rows, whose values nobody reads.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from antiphon.core.errors import ConfigError
from antiphon.engine.code2wav_model import SpeechModel, VoiceFeatures, VoiceState
from antiphon.engine.code2wav_positions import StreamPositions
from antiphon.engine.counters import Counters
from antiphon.engine.device_stream import DeviceStream, Fence
from antiphon.engine.float32_precision import float32_precision
from antiphon.engine.graph_cache import GraphCache
from antiphon.engine.settings import Code2WavSettings
from antiphon.layers.speech_shapes import FRAMES_PER_CODE, ChunkPositions, FlowCapacity, VocoderShape


@dataclass(frozen=True)
class ChunkRow:
    """One stream's chunk in a launch."""

    slot: int
    codes: tuple[int, ...]
    num_voiced: int
    positions: ChunkPositions
    shape: VocoderShape
    source_seed: int
    source_start: int


class _Staging:
    """Host memory of one launch under way; pinned where there is a device to copy to and from."""

    def __init__(self, flow_size: int, max_batch: int, num_fields: int, max_samples: int, *, pin: bool) -> None:
        self.flow = torch.zeros(max_batch * flow_size, dtype=torch.int64, pin_memory=pin)
        self.vocoder = torch.zeros(max_batch, num_fields, dtype=torch.int64, pin_memory=pin)
        self.samples = torch.zeros(max_batch * max_samples, dtype=torch.float32, pin_memory=pin)


@dataclass(frozen=True)
class RunningChunks:
    """A launch under way. Samples may be read once `fence` has passed, and until `Code2WavRunner.recycle`."""

    fence: Fence
    staging: _Staging
    places: tuple[slice, ...]  # of each chunk's samples, the held ones included

    def samples(self, index: int) -> NDArray[np.float32]:
        """A private copy of chunk *index*'s samples."""
        host: NDArray[np.float32] = self.staging.samples[self.places[index]].numpy().copy()
        return host


def chunk_widths(settings: Code2WavSettings, lookahead: int) -> tuple[int, int]:
    """Most ids voiced by an ordinary chunk, and by a turn's last one, which has no look-ahead to give back."""
    return settings.chunk_codes, settings.chunk_codes + lookahead


def batch_buckets(settings: Code2WavSettings) -> tuple[int, ...]:
    """Batch sizes that are captured, rising. Raises ConfigError."""
    buckets = tuple(sorted(set(settings.graph_batches)))
    if not buckets or buckets[0] < 1:
        raise ConfigError(f"code2wav: graph_batches is {settings.graph_batches}; give sizes of 1 and more")
    return buckets


def slot_classes(settings: Code2WavSettings, lookahead: int, num_tail_frames: int) -> tuple[FlowCapacity, ...]:
    """Classes of slots, the smaller capacity first."""
    max_codes = chunk_widths(settings, lookahead)[1]
    short = min(settings.short_prompt_frames, settings.max_prompt_frames)
    classes = [FlowCapacity(short, num_tail_frames, max_codes, settings.num_slots)]
    if settings.max_prompt_frames > short and settings.num_long_slots:
        classes.append(
            FlowCapacity(settings.max_prompt_frames, num_tail_frames, max_codes, settings.num_long_slots)
        )  # fmt: skip
    return tuple(classes)


class Code2WavRunner:
    """Owns the graphs and the host's side of launches. Methods must run on the device-loop thread."""

    def __init__(
        self, model: SpeechModel, settings: Code2WavSettings, *, counters: Counters, stream: DeviceStream
    ) -> None:
        self.model, self.settings, self.stream, self.counters = model, settings, stream, counters
        self.width, self.max_codes = chunk_widths(settings, model.lookahead)
        self.buckets = batch_buckets(settings)
        self.max_batch = self.buckets[-1]
        self.cfm_graphs = GraphCache("cfm", stream, counters, enabled=settings.use_graphs)
        self.hift_graphs = GraphCache("hift", stream, counters, enabled=settings.use_hift_graph)
        self._scratch_slot = sum(capacity.num_slots for capacity in model.capacities)  # the vocoder's
        flow_size = max(
            model.flow_layout(index, width).size
            for index in range(len(model.capacities))
            for width in (self.width, self.max_codes)
        )
        num_fields, pin = model.vocoder_inputs.shape[1], stream.device.type == "cuda"
        self._free_staging = [
            _Staging(flow_size, self.max_batch, num_fields, model.max_samples, pin=pin)
            for _ in range(settings.max_launches)
        ]

    @property
    def can_launch(self) -> bool:
        return bool(self._free_staging)

    def is_wide(self, num_voiced: int) -> bool:
        """Whether a chunk needs the width of a whole buffer, look-ahead included; such run one at a time."""
        return num_voiced > self.width

    def make_voice(self, features: VoiceFeatures) -> VoiceState:
        with self.stream.active(), float32_precision(tf32=self.settings.use_tf32):
            return self.model.make_voice(features.codes, features.xvector, features.mel)

    def restore(self, class_index: int, slot: int, voice: VoiceState) -> None:
        """Put *slot* at the start of a turn."""
        with self.stream.active():
            voice.restore(class_index, slot)

    def launch(self, class_index: int, rows: Sequence[ChunkRow]) -> RunningChunks:
        """Start voicing *rows*, of different slots of one class: one wide one, or any number up to `max_batch`."""
        is_wide = self.is_wide(max(row.num_voiced for row in rows))
        assert len(rows) <= (1 if is_wide else self.max_batch)
        staging = self._free_staging.pop()
        try:
            with self.stream.active(), float32_precision(tf32=self.settings.use_tf32):
                self._run_flow(class_index, self.max_codes if is_wide else self.width, rows, staging)
                places = self._run_vocoder(class_index, rows, staging)
        except RuntimeError:  # the device is out of memory, say: this launch is lost, its host memory is not
            self._free_staging.append(staging)
            raise
        return RunningChunks(self.stream.fence(), staging, places)

    def recycle(self, running: RunningChunks) -> None:
        """The samples of a finished launch have been taken."""
        self._free_staging.append(running.staging)

    def warm_up(self, report: Callable[[str], None]) -> None:
        """Capture every shape that a stream can come in, on scratch rows; without graphs, run the commonest once."""
        model = self.model
        with float32_precision(tf32=self.settings.use_tf32):
            for index, capacity in enumerate(model.capacities):
                for width in (self.width, self.max_codes):
                    inputs = model.flow_inputs(index, width)
                    filled = np.zeros((1, inputs.shape[1]), np.int64)
                    self._fill(filled, index, width, [])
                    with self.stream.active():
                        inputs.copy_(torch.from_numpy(filled).expand_as(inputs))
                    for batch in self._batches(self.cfm_graphs, is_batched=width == self.width):
                        self.cfm_graphs.prepare((index, width, batch), partial(model.run_flow, index, width, batch))
                        report(f"flow: voices to {capacity.max_prompt_frames} frames, {width} ids, batch {batch}")
            with self.stream.active():
                model.vocoder_inputs.zero_()
                model.vocoder_inputs[:, 1] = self._scratch_slot
            for shape in self._vocoder_shapes():
                for batch in self._batches(self.hift_graphs, is_batched=self._is_steady(shape)):
                    self.hift_graphs.prepare((shape, batch), partial(model.run_vocoder, shape, batch))
                report(f"vocoder: {shape.num_frames} frames, {'later' if shape.has_past else 'first'} chunk")

    def _batches(self, graphs: GraphCache, *, is_batched: bool) -> tuple[int, ...]:
        return self.buckets if is_batched and graphs.enabled else self.buckets[:1]

    def _vocoder_shapes(self) -> list[VocoderShape]:
        steady = FRAMES_PER_CODE * self.width
        shapes = [VocoderShape(steady, has_past=False), VocoderShape(steady, has_past=True)]
        if self.settings.capture_tails and self.hift_graphs.enabled:
            for num_frames in range(FRAMES_PER_CODE, FRAMES_PER_CODE * self.max_codes + 1, FRAMES_PER_CODE):
                if num_frames != steady:
                    shapes.append(VocoderShape(num_frames, has_past=True))
                if self.model.held_frames <= num_frames < steady:  # a short first chunk
                    shapes.append(VocoderShape(num_frames, has_past=False))
        return shapes

    def _is_steady(self, shape: VocoderShape) -> bool:
        return shape.num_frames == FRAMES_PER_CODE * self.width

    def _run_flow(self, class_index: int, width: int, rows: Sequence[ChunkRow], staging: _Staging) -> None:
        batch = self._bucket(len(rows))
        inputs = self.model.flow_inputs(class_index, width)[:batch]
        filled = staging.flow[: inputs.numel()].view_as(inputs)
        self._fill(filled.numpy(), class_index, width, rows)
        inputs.copy_(filled, non_blocking=True)
        run = partial(self.model.run_flow, class_index, width, batch)
        self.cfm_graphs.run((class_index, width, batch), run)
        self.counters.use("adaln_table")
        if self.settings.use_tf32 and self.stream.device.type == "cuda":
            self.counters.use("dit_tf32")
        if self.model.has_kernels:
            self.counters.use("cfm_triton")
        elif self.settings.use_triton and self.stream.device.type == "cuda":
            self.counters.fall_back("cfm_triton", "Triton is not installed")

    def _fill(self, host: NDArray[np.int64], class_index: int, width: int, rows: Sequence[ChunkRow]) -> None:
        """Write *rows* into the first rows of *host* [batch, size]; the others are silence in the scratch row."""
        layout = self.model.flow_layout(class_index, width)
        for place, row in zip(host, rows, strict=False):
            layout.fill(place, row.slot, row.codes, row.num_voiced, row.positions)
        if len(rows) < len(host):
            capacity = self.model.capacities[class_index]
            positions = StreamPositions(capacity, 0).advance(width)
            codes = (0,) * (width + self.model.lookahead)
            for place in host[len(rows) :]:
                layout.fill(place, capacity.num_slots, codes, width, positions)

    def _run_vocoder(self, class_index: int, rows: Sequence[ChunkRow], staging: _Staging) -> tuple[slice, ...]:
        model = self.model
        first_slot = sum(capacity.num_slots for capacity in model.capacities[:class_index])
        host: NDArray[np.int64] = staging.vocoder.numpy()
        places: list[slice] = [slice(0)] * len(rows)
        num_filled, num_samples = 0, 0
        for shape, members in self._vocoder_groups(rows):
            batch, count = self._bucket(len(members)), len(members)
            for offset, index in enumerate(members):
                row = rows[index]
                host[num_filled + offset] = (index, first_slot + row.slot, row.source_seed, row.source_start)
            inputs = model.vocoder_inputs[:batch]
            inputs[:count].copy_(staging.vocoder[num_filled : num_filled + count], non_blocking=True)
            inputs[count:, 1] = self._scratch_slot
            self.hift_graphs.run((shape, batch), partial(model.run_vocoder, shape, batch))
            self.counters.use("hift_noise")
            size = model.num_samples(shape)
            made = model.vocoder_output(shape, batch)[:count].flatten()
            staging.samples[num_samples : num_samples + count * size].copy_(made, non_blocking=True)
            for offset, index in enumerate(members):
                places[index] = slice(num_samples + offset * size, num_samples + (offset + 1) * size)
            num_filled += count
            num_samples += count * size
        return tuple(places)

    def _vocoder_groups(self, rows: Sequence[ChunkRow]) -> list[tuple[VocoderShape, list[int]]]:
        """Rows of a steady shape together; every other one alone, since that is what was captured."""
        steady: dict[VocoderShape, list[int]] = {}
        alone: list[tuple[VocoderShape, list[int]]] = []
        for index, row in enumerate(rows):
            if self._is_steady(row.shape):
                steady.setdefault(row.shape, []).append(index)
            else:
                alone.append((row.shape, [index]))
        return [*steady.items(), *alone]

    def _bucket(self, num_rows: int) -> int:
        return next(bucket for bucket in self.buckets if bucket >= num_rows)
