"""The vocoding stage: many streams of speech at once, each a slot on the device and a queue of codec chunks here.

One launch voices the next chunk of every ready stream that fits the shape of the most urgent one. A stream lives from
`admit` to its one output with a finish reason; between turns it keeps its slot.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
from numpy.typing import NDArray

from antiphon.core.errors import CapacityError, MediaError, StateError
from antiphon.engine.code2wav_model import SpeechModel, VoiceFeatures
from antiphon.engine.code2wav_positions import StreamPositions
from antiphon.engine.code2wav_runner import ChunkRow, Code2WavRunner, RunningChunks
from antiphon.engine.code2wav_streams import SlotLoan, SpeechJob, SpeechOutput, SpeechStream, by_deadline
from antiphon.engine.code2wav_voices import Voice, VoiceShelf
from antiphon.engine.code_buffer import CodeChunk
from antiphon.engine.counters import Counters
from antiphon.engine.device_stream import DeviceStream
from antiphon.engine.settings import Code2WavSettings
from antiphon.engine.slots import SlotPool
from antiphon.layers.speech_shapes import FRAMES_PER_CODE, VocoderShape

DEFAULT_VOICE_KEY = "default"
_NO_SAMPLES = np.zeros(0, np.float32)


@dataclass(frozen=True)
class _Launch:
    """A launch under way and whose chunks it holds."""

    number: int
    running: RunningChunks
    chunks: list[tuple[SpeechStream, CodeChunk]]


class Code2WavEngine:
    """Drives one Code2Wav model. All methods are for the device-loop thread; none but `add_voice` waits for the device.

    Args:
        model: its slots are those of `slot_classes(settings, …)`.
        clock: seconds; deadlines are on it.
    """

    def __init__(
        self,
        model: SpeechModel,
        settings: Code2WavSettings,
        *,
        counters: Counters,
        stream: DeviceStream,
        clock: Callable[[], float],
    ) -> None:
        self.settings, self.counters, self.clock = settings, counters, clock
        self.model = model
        self.runner = Code2WavRunner(model, settings, counters=counters, stream=stream)
        self.voices = VoiceShelf(settings.max_voices, settings.max_voice_bytes)
        self._slots = [SlotPool(capacity.num_slots, name="code2wav slots") for capacity in model.capacities]
        self._streams: dict[str, SpeechStream] = {}
        self._held_voices: dict[SpeechStream, Voice] = {}
        self._launches: list[_Launch] = []
        self._ended: list[SpeechOutput] = []
        self._launch_numbers, self._borrowers = count(), count()

    def warm_up(self, report: Callable[[str], None], default_voice: VoiceFeatures | None = None) -> None:
        """Capture all shapes, then make the default voice ready under `DEFAULT_VOICE_KEY`."""
        self.runner.warm_up(report)
        if default_voice is not None:
            self.add_voice(DEFAULT_VOICE_KEY, default_voice)
            report("voice: default")

    def has_voice(self, key: str) -> bool:
        return key in self.voices

    def add_voice(self, key: str, prompt: VoiceFeatures) -> None:
        """Make a voice ready. *key* names the recording, the number of steps and the precision; a known one is kept.

        Takes tens of milliseconds of this thread on a GPU.

        Raises:
            CapacityError: the recording is too long, or all voices are in use.
            MediaError: the features are not numbers.
        """
        if key in self.voices:
            self.voices.touch(key)
            self.counters.use("voice_template_cache")
            return
        num_frames, longest = prompt.mel.shape[2], self.model.capacities[-1].max_prompt_frames
        if num_frames > longest:
            raise CapacityError(
                f"code2wav: the reference voice has {num_frames / 50:.2f} s; at most {longest / 50:.2f} s are supported"
            )
        if not (bool(prompt.mel.isfinite().all()) and bool(prompt.xvector.isfinite().all())):
            raise MediaError("code2wav: the features of the reference voice contain values that are not numbers")
        self._check_codes(prompt.codes[0].tolist())
        self.voices.make_room()
        state = self.runner.make_voice(prompt)
        self.voices.make_room(state.num_bytes)
        self.voices.put(key, state)

    def admit(self, job: SpeechJob) -> None:
        """Open a stream. It waits for a slot if none is free.

        Raises:
            StateError: the stream is open already, or its voice is not there.
            CapacityError: too many streams wait for slots.
        """
        if job.stream_id in self._streams:
            raise StateError(f"code2wav: stream {job.stream_id} is open already; end or abort it first")
        num_waiting = sum(stream.loan is None for stream in self._streams.values())
        num_free = sum(pool.num_free for pool in self._slots)
        if num_waiting >= self.settings.max_waiting_streams + num_free:
            raise CapacityError(
                f"code2wav: {num_waiting} streams wait for slots already; {job.stream_id} must come later"
            )
        voice = self.voices.lend(job.voice_key)
        num_frames = voice.state.num_prompt_frames
        class_index = next(
            index for index, capacity in enumerate(self.model.capacities) if num_frames <= capacity.max_prompt_frames
        )
        positions = StreamPositions(self.model.capacities[class_index], num_frames)
        stream = SpeechStream(job, positions, class_index, f"{job.stream_id}#{next(self._borrowers)}")
        stream.turn_deadline_s = job.deadline_s
        self._streams[job.stream_id] = stream
        self._held_voices[stream] = voice

    def push(self, stream_id: str, codes: tuple[int, ...], *, is_last: bool) -> None:
        """Queue a chunk as `CodeBuffer` yields it; *is_last* ends the turn, and the next chunk starts another.

        Raises:
            StateError: the stream is not open, or its input was closed.
            CapacityError: an id without an embedding, a chunk of the wrong size, or too many chunks wait.
        """
        stream = self._streams.get(stream_id)
        if stream is None or stream.is_closed:
            raise StateError(f"code2wav: stream {stream_id} is not open; admit it before chunks are pushed")
        self._check_codes(codes)
        self._check_size(codes, is_first=stream.expects_first, is_last=is_last)
        if len(stream.chunks) >= self.settings.max_waiting_chunks:
            raise CapacityError(f"code2wav: {len(stream.chunks)} chunks of stream {stream_id} wait already")
        stream.chunks.append(CodeChunk(codes, is_last))
        if stream.loan is None and stream.waits_since_s is None:
            stream.waits_since_s = self.clock()
        stream.expects_first = is_last

    def close_input(self, stream_id: str) -> None:
        """No more chunks will come: the stream ends with "stop" once all is voiced."""
        stream = self._streams.get(stream_id)
        if stream is None:
            raise StateError(f"code2wav: stream {stream_id} is not open")
        stream.is_closed = True
        if stream.is_idle:
            self._ended.append(self._end(stream, "stop"))

    def abort(self, stream_id: str) -> None:
        """End a stream now; what is under way is dropped. Unknown streams have ended before, which is fine."""
        stream = self._streams.get(stream_id)
        if stream is not None:
            self._ended.append(self._end(stream, "abort"))

    def launch(self) -> bool:
        """Voice the next chunks of the most urgent streams; false when nothing is ready or enough is under way."""
        if not self.runner.can_launch:
            return False
        self._lend_slots()
        ready = by_deadline([stream for stream in self._streams.values() if stream.is_ready])
        if not ready:
            return False
        chosen = self._same_shape(ready)
        number = next(self._launch_numbers)
        chunks = [(stream, stream.chunks.popleft()) for stream in chosen]
        rows = [self._start_chunk(stream, chunk, number) for stream, chunk in chunks]
        running = self.runner.launch(chosen[0].class_index, rows)
        self._launches.append(_Launch(number, running, chunks))
        return True

    def collect(self) -> list[SpeechOutput]:
        """What has been made since the last call, in order for each stream."""
        outputs, self._ended = self._ended, []
        while self._launches and self._launches[0].running.fence.is_done():
            launch = self._launches.pop(0)
            for pool in self._slots:
                pool.pass_fence(launch.number)
            for index, (stream, chunk) in enumerate(launch.chunks):
                stream.num_under_way -= 1
                if not stream.has_ended:
                    outputs.append(self._output(stream, chunk, launch.running, index))
            self.runner.recycle(launch.running)
        return outputs

    def snapshot(self) -> dict[str, float]:
        return {
            "streams": len(self._streams),
            "slots_lent": sum(pool.num_lent for pool in self._slots),
            "slots_retired": sum(pool.num_retired for pool in self._slots),
            "streams_waiting": sum(stream.loan is None for stream in self._streams.values()),
            "waiting": sum(stream.waits_since_s is not None for stream in self._streams.values()),
            "chunks_waiting": sum(len(stream.chunks) for stream in self._streams.values()),
            "launches_under_way": len(self._launches),
            "voices": len(self.voices),
            "voice_bytes": self.voices.num_bytes,
        }

    def _check_codes(self, codes: Sequence[int]) -> None:
        largest = self.model.num_codec_ids - 1
        wrong = [code for code in codes if not 0 <= code <= largest]
        if wrong:
            raise CapacityError(f"code2wav: codec id {wrong[0]} is not one of 0 … {largest}; strip the end id first")

    def _check_size(self, codes: tuple[int, ...], *, is_first: bool, is_last: bool) -> None:
        model, max_codes = self.model, self.runner.max_codes
        least = 1 if is_last else model.lookahead + 1
        if is_first and not is_last:
            least = model.lookahead + model.held_frames // FRAMES_PER_CODE  # what the vocoder holds back must be there
        if not least <= len(codes) <= max_codes:
            raise CapacityError(
                f"code2wav: a chunk of {len(codes)} codec ids; here it must have {least} to {max_codes}"
            )

    def _lend_slots(self) -> None:
        for stream in by_deadline([stream for stream in self._streams.values() if stream.loan is None]):
            pool = self._slots[stream.class_index]
            if pool.num_free and stream.chunks:
                stream.loan = SlotLoan(stream.class_index, pool.lend(stream.borrower))
                if stream.waits_since_s is not None:
                    self.counters.observe("stage_in_queue_s", self.clock() - stream.waits_since_s, "code2wav")
                    stream.waits_since_s = None

    def _same_shape(self, ready: list[SpeechStream]) -> list[SpeechStream]:
        """The most urgent stream and those that can share its launch."""
        head = ready[0]
        if self._is_wide(head):
            return [head]
        return [
            stream for stream in ready if stream.class_index == head.class_index and not self._is_wide(stream)
        ][: self.runner.max_batch]  # fmt: skip

    def _is_wide(self, stream: SpeechStream) -> bool:
        return self.runner.is_wide(self._num_voiced(stream.chunks[0]))

    def _num_voiced(self, chunk: CodeChunk) -> int:
        return len(chunk.codes) if chunk.is_last else len(chunk.codes) - self.model.lookahead

    def _start_chunk(self, stream: SpeechStream, chunk: CodeChunk, number: int) -> ChunkRow:
        """Advance what is known of *stream* past *chunk*, whose launch is *number*."""
        assert stream.loan is not None
        has_past = not stream.at_turn_start
        if stream.at_turn_start:
            self.runner.restore(stream.class_index, stream.loan.slot, self._held_voices[stream].state)
            stream.positions.restart()
            stream.at_turn_start = False
        num_voiced = self._num_voiced(chunk)
        row = ChunkRow(
            slot=stream.loan.slot,
            codes=chunk.codes,
            num_voiced=num_voiced,
            positions=stream.positions.advance(num_voiced),
            shape=VocoderShape(FRAMES_PER_CODE * num_voiced, has_past),
            source_seed=stream.job.source_seed,
            source_start=stream.source_start,
        )
        num_samples = self.model.num_samples(row.shape)
        stream.source_start = self.model.next_source_start(stream.source_start, num_samples)
        stream.sent_samples += num_samples if chunk.is_last else num_samples - self.model.held_samples
        stream.num_under_way += 1
        stream.last_launch = number
        if chunk.is_last:
            stream.end_turn(self.clock())
        return row

    def _output(self, stream: SpeechStream, chunk: CodeChunk, running: RunningChunks, index: int) -> SpeechOutput:
        samples = running.samples(index)
        if not np.isfinite(samples).all():
            return self._end(stream, "error", "code2wav: the model made samples that are not numbers; stream ended")
        if not chunk.is_last:
            samples = samples[: -self.model.held_samples]
        if stream.play_start_s is None and not stream.at_turn_start:
            stream.play_start_s = self.clock()
        if stream.is_closed and stream.is_idle:
            return self._end(stream, "stop", samples=samples, is_last=chunk.is_last)
        return SpeechOutput(stream.job.stream_id, stream.job.epoch, samples, chunk.is_last)

    def _end(
        self,
        stream: SpeechStream,
        reason: str,
        error: str | None = None,
        *,
        samples: NDArray[np.float32] = _NO_SAMPLES,
        is_last: bool = False,
    ) -> SpeechOutput:
        """Forget *stream*, give back what it holds, and make its last output."""
        stream.has_ended = True
        stream.chunks.clear()
        del self._streams[stream.job.stream_id]
        self.voices.give_back(self._held_voices.pop(stream))
        if stream.loan is not None:
            pool = self._slots[stream.class_index]
            if stream.num_under_way:
                pool.retire(stream.loan.slot, stream.borrower, stream.last_launch)
            else:
                pool.give_back(stream.loan.slot, stream.borrower)
            stream.loan = None
        return SpeechOutput(stream.job.stream_id, stream.job.epoch, samples, is_last, reason, error)
