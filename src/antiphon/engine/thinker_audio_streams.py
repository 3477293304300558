"""The audio that live sessions stream in: which of them have a slot, how far each is, and their units' encoding."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import torch
from torch import Tensor

from antiphon.core.errors import CapacityError, MediaError, StateError
from antiphon.engine.audio_messages import AudioRows, AudioStep
from antiphon.engine.audio_units import AudioUnitRunner, UnitModel, UnitRow
from antiphon.engine.counters import Counters
from antiphon.engine.device_stream import DeviceStream
from antiphon.engine.settings import ThinkerSettings
from antiphon.engine.slots import SlotPool
from antiphon.layers.audio_slots import STREAM_MEL_FRAMES, UNIT_FRAMES

State = TypeVar("State")

# Mel frames and what is trimmed behind the convolutions, of a stream's first unit and of all others.
_FIRST = (STREAM_MEL_FRAMES - 2, 0, 1)
_LATER = (STREAM_MEL_FRAMES, 1, 1)


class StreamModel(UnitModel, Protocol[State]):
    """A model that also encodes one stream by itself: the slow twin."""

    def new_audio_stream(self) -> State: ...

    def encode_audio_step(self, mel: Tensor, state: State, *, trim_front: int, trim_end: int) -> Tensor: ...


@dataclass
class _Stream(Generic[State]):
    slot: int
    state: State  # of the slow twin
    length: int = 0  # frames in its cache
    has_begun: bool = False


class ThinkerAudioStreams(Generic[State]):
    """At most `num_audio_streams` streams; each has its slot from `open` to `close`. Driven by one thread.

    Without `use_audio_batch` the streams are encoded one by one, each with a cache that grows.
    """

    def __init__(
        self,
        model: StreamModel[State],
        settings: ThinkerSettings,
        *,
        dtype: torch.dtype,
        counters: Counters,
        stream: DeviceStream,
    ) -> None:
        self._model, self._stream, self._counters = model, stream, counters
        self._num_streams = settings.num_audio_streams
        self._pool = SlotPool(max(1, self._num_streams), name="audio streams")
        self._streams: dict[str, _Stream[State]] = {}
        self._max_positions = model.config.audio.max_positions
        self._num_bins = model.config.audio.num_mel_bins
        self._runner: AudioUnitRunner | None = None
        if self._num_streams and settings.use_audio_batch:
            self._runner = AudioUnitRunner(
                model,
                num_streams=self._num_streams,
                batches=settings.graph_batches,
                dtype=dtype,
                counters=counters,
                stream=stream,
                use_graphs=settings.use_graphs,
                use_triton=settings.use_triton,
            )

    @property
    def num_free(self) -> int:
        return self._num_streams - len(self._streams)

    def warm_up(self, report: Callable[[str], None]) -> None:
        """Capture everything that the first unit would otherwise wait for; *report* is told what."""
        if self._runner is not None:
            self._runner.warm_up(report)

    def open(self, stream_id: str) -> None:
        """Begin a stream.

        Raises:
            CapacityError: all slots are taken.
            StateError: it is open already.
        """
        if stream_id in self._streams:
            raise StateError(f"audio stream {stream_id} is open already; close it before another takes its id")
        if self.num_free == 0:
            raise CapacityError(
                f"audio streams: all {self._num_streams} are taken; {stream_id} must wait until a session ends"
            )
        self._streams[stream_id] = _Stream(self._pool.lend(stream_id), self._model.new_audio_stream())

    def reset(self, stream_id: str) -> None:
        """Forget what the stream has heard: its next unit is a first one."""
        stream = self._get(stream_id)
        stream.length, stream.has_begun, stream.state = 0, False, self._model.new_audio_stream()

    def close(self, stream_id: str) -> None:
        """End a stream at any point; nothing happens if it is not open."""
        stream = self._streams.pop(stream_id, None)
        if stream is not None:
            self._pool.give_back(stream.slot, stream_id)

    def step(self, steps: Sequence[AudioStep]) -> AudioRows:
        """Encode the next units of several streams, no stream twice; nothing is changed if one is refused.

        Raises:
            MediaError: a mel chunk is none of a duplex unit.
            StateError: a stream is not open, has two units here, or gets its first unit twice.
        """
        streams = [self._get(step.stream_id) for step in steps]
        if len({step.stream_id for step in steps}) < len(steps):
            raise StateError("audio streams: two units of one stream in one call; the second needs the first's result")
        for step, stream in zip(steps, streams, strict=True):
            self._check(step, stream)
        rows = self._step_batch(steps, streams) if self._runner is not None else self._step_each(steps, streams)
        return AudioRows(rows, self._stream.fence())

    def snapshot(self) -> dict[str, float]:
        return {"audio_streams": len(self._streams)}

    def _step_batch(self, steps: Sequence[AudioStep], streams: Sequence[_Stream[State]]) -> tuple[Tensor, ...]:
        assert self._runner is not None
        units = []
        for step, stream in zip(steps, streams, strict=True):
            # As the encoder's own step: frames are counted before they are trimmed.
            if stream.length + (step.mel.shape[1] + 1) // 2 >= self._max_positions:
                stream.length = 0
            units.append(UnitRow(stream.slot, stream.length, not stream.has_begun, step.mel))
            stream.length += UNIT_FRAMES
            stream.has_begun = True
        return self._runner.run(units)

    def _step_each(self, steps: Sequence[AudioStep], streams: Sequence[_Stream[State]]) -> tuple[Tensor, ...]:
        rows = []
        with self._stream.active():
            for step, stream in zip(steps, streams, strict=True):
                mel = step.mel.to(self._stream.device, non_blocking=True)
                rows.append(
                    self._model.encode_audio_step(mel, stream.state, trim_front=step.trim_front, trim_end=step.trim_end)
                )
                stream.has_begun = True
        return tuple(rows)

    def _get(self, stream_id: str) -> _Stream[State]:
        stream = self._streams.get(stream_id)
        if stream is None:
            raise StateError(f"no audio stream {stream_id} is open; open it before its first unit")
        return stream

    def _check(self, step: AudioStep, stream: _Stream[State]) -> None:
        shape = tuple(step.mel.shape)
        num_frames, front, end = _LATER if stream.has_begun else _FIRST
        if shape != (self._num_bins, num_frames) or (step.trim_front, step.trim_end) != (front, end):
            which = "a later" if stream.has_begun else "a first"
            raise MediaError(
                f"audio stream {step.stream_id}: a chunk of shape {shape}, trimmed by {step.trim_front} and "
                f"{step.trim_end}; {which} unit has ({self._num_bins}, {num_frames}), trimmed by {front} and {end}"
            )
