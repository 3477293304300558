"""The Talker stage's engine: admits jobs, starts their conditions, steps them in windows, hands out codes.

One launch is in flight at a time: either conditions start, or all rows that can step take a window together. A slot is
given back only behind the last launch that may write to it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from antiphon.core.errors import CapacityError, StateError
from antiphon.engine.counters import Counters
from antiphon.engine.device_stream import DeviceStream, Fence
from antiphon.engine.graph_cache import GraphCache
from antiphon.engine.settings import TalkerSettings
from antiphon.engine.slots import SlotPool
from antiphon.engine.step_window import Boundaries, StepWindow, WindowLadder
from antiphon.engine.talker_admission import check_condition, check_job
from antiphon.engine.talker_device import TalkerDevice
from antiphon.engine.talker_draw import top_k_of
from antiphon.engine.talker_job import TalkerCondition, TalkerFinish, TalkerJob, TalkerModel, TalkerOutput
from antiphon.engine.talker_prompt import PromptBuilder
from antiphon.engine.talker_sequence import TalkerSequence
from antiphon.engine.talker_start import StartLauncher
from antiphon.engine.talker_window import WindowLauncher
from antiphon.layers.code_rows import POISON


@dataclass(frozen=True)
class _Flight:
    """The launch that is running. *window* None: conditions start."""

    flight_id: int
    sequences: tuple[TalkerSequence, ...]
    prompt_lens: tuple[int, ...]
    window: StepWindow | None
    fence: Fence


class TalkerEngine:
    """Driven by one thread, which it never blocks: `launch` queues work, `collect` returns what has finished."""

    def __init__(
        self,
        model: TalkerModel,
        settings: TalkerSettings,
        *,
        device: torch.device,
        dtype: torch.dtype,
        counters: Counters,
        stream: DeviceStream,
        clock: Callable[[], float],
    ) -> None:
        self.settings, self.counters, self.stream, self.clock = settings, counters, stream, clock
        self._config = model.config
        self._device = TalkerDevice(model, settings, device=device, dtype=dtype, counters=counters)
        self._graphs = GraphCache("talker", stream, counters, enabled=settings.use_graphs)
        self._lengths = settings.windows if settings.use_step_window else (1,)
        self._ladder = WindowLadder(self._lengths)
        self._windows = WindowLauncher(self._device, self._graphs, self._lengths)
        self._starts = StartLauncher(self._device, self._graphs, settings.max_condition_tokens)
        self._slots = SlotPool(settings.num_slots, name="talker slots")
        self._boundaries = Boundaries(settings.first_chunk_codes, settings.chunk_codes)
        self._sequences: dict[str, TalkerSequence] = {}
        self._outputs: list[TalkerOutput] = []
        self._flight: _Flight | None = None
        self._num_flights = 0

    def warm_up(self, report: Callable[[str], None]) -> None:
        """Capture every window and every small start; on a CPU there is nothing to capture."""
        if not self._graphs.enabled:
            return
        for num_rows in self._device.batches:
            for num_steps in self._lengths:
                report(f"talker: {num_steps} steps of {num_rows} rows")
                self._windows.prepare(num_rows, num_steps)
            for num_tokens in self._device.prompt_sizes:
                if num_tokens >= num_rows:
                    report(f"talker: {num_tokens} tokens of {num_rows} conditions")
                    self._starts.prepare(num_rows, num_tokens)

    def admit(self, job: TalkerJob) -> None:
        """Take a job; its conditions come by `extend`.

        Raises:
            CapacityError: too many are here.
            StateError: the name is taken.
            SamplingError, ConfigError: the job cannot be honoured.
        """
        if job.seq_id in self._sequences:
            raise StateError(f"talker: {job.seq_id} is admitted already")
        if len(self._sequences) >= self.settings.max_queued_seqs:
            raise CapacityError(f"talker: {len(self._sequences)} sequences are admitted; {job.seq_id} must wait")
        check_job(job, self._config)
        self._sequences[job.seq_id] = TalkerSequence(
            job,
            eos_id=self._config.codec_eos_id,
            max_positions=self._device.max_positions,
            boundaries=self._boundaries,
        )

    def extend(self, seq_id: str, condition: TalkerCondition) -> None:
        """Give a job its next condition.

        Raises:
            StateError: no such job, or nothing may follow.
            CapacityError: too many conditions wait.
            PromptError: the condition is malformed.
        """
        sequence = self._require(seq_id)
        if sequence.is_closed:
            raise StateError(f"talker: {seq_id} had its last condition already")
        if len(sequence.conditions) >= self.settings.max_queued_conditions:
            raise CapacityError(f"talker: {len(sequence.conditions)} conditions of {seq_id} wait; speak them first")
        check_condition(seq_id, condition, self._config)
        sequence.conditions.append(condition)
        if sequence.slot is None and sequence.waits_since_s is None:
            sequence.waits_since_s = self.clock()
        sequence.is_closed = condition.is_last

    def close_input(self, seq_id: str) -> None:
        """No condition follows; the job ends when those it has are spoken."""
        sequence = self._require(seq_id)
        sequence.is_closed = True
        if not sequence.conditions and not sequence.is_speaking:
            self._finish(sequence, "stop")

    def abort(self, seq_id: str) -> None:
        """End a job now; what is in flight of it no longer counts. An unknown name is one that ended just before."""
        sequence = self._sequences.get(seq_id)
        if sequence is not None:
            self._finish(sequence, "abort")

    def launch(self) -> bool:
        """Queue the next launch unless one is in flight. Returns whether something was queued."""
        if self._flight is not None:
            return False
        return self._launch_starts() or self._launch_window()

    def collect(self) -> list[TalkerOutput]:
        """What has become known since the last call; never waits for a GPU."""
        flight = self._flight
        if flight is not None and flight.fence.is_done():
            self._flight = None
            if flight.window is None:
                self._commit_starts(flight)
            else:
                self._commit_window(flight, flight.window)
            self._slots.pass_fence(flight.flight_id)
        outputs, self._outputs = self._outputs, []
        return outputs

    @property
    def is_idle(self) -> bool:
        """Nothing is in flight, and nothing waits that could be launched."""
        return self._flight is None and not self._outputs and not self._startable() and not self._steppable()

    def snapshot(self) -> dict[str, float]:
        sequences = self._sequences.values()
        return {
            "sequences": len(self._sequences),
            "speaking": sum(sequence.is_speaking for sequence in sequences),
            "waiting": sum(sequence.can_start and sequence.slot is None for sequence in sequences),
            "slots_lent": self._slots.num_lent,
            "slots_free": self._slots.num_free,
            "slots_retired": self._slots.num_retired,
            "positions_used": sum(sequence.length for sequence in sequences),
        }

    def _require(self, seq_id: str) -> TalkerSequence:
        sequence = self._sequences.get(seq_id)
        if sequence is None:
            raise StateError(f"talker: there is no sequence {seq_id}; admit it first")
        return sequence

    def _startable(self) -> list[TalkerSequence]:
        waiting = [sequence for sequence in self._sequences.values() if sequence.can_start]
        return sorted(waiting, key=lambda sequence: sequence.deadline_s)

    def _steppable(self) -> list[TalkerSequence]:
        rows = [s for s in self._sequences.values() if s.is_speaking and s.row is not None and s.row.can_step]
        return sorted(rows, key=lambda sequence: sequence.deadline_s)

    def _launch_starts(self) -> bool:
        builder = PromptBuilder(self._config)
        started: list[TalkerSequence] = []
        for sequence in self._startable():
            if builder.num_tokens + sequence.num_next_tokens > self.settings.max_condition_tokens and started:
                break
            if sequence.slot is None and self._slots.num_free == 0:
                continue  # those within a turn may go on
            plan = sequence.plan_next()
            if plan is None:
                self._finish(sequence, "context")
                continue
            slot = self._slots.lend(sequence.job.seq_id) if sequence.slot is None else sequence.slot
            if sequence.waits_since_s is not None:
                self.counters.observe("stage_in_queue_s", self.clock() - sequence.waits_since_s, "talker")
                sequence.waits_since_s = None
            builder.add(sequence, plan, slot)
            started.append(sequence)
        if not started:
            return False
        with self.stream.active():
            for sequence in started:
                if sequence.condition.ready is not None:
                    self.stream.follow(sequence.condition.ready)
            self._starts.launch(builder.batch(), max_top_k=self._max_top_k(started))
            fence = self.stream.fence()
        self._fly(tuple(started), builder.prompt_lens, None, fence)
        return True

    def _launch_window(self) -> bool:
        ready = self._steppable()
        if not ready:
            return False
        slack = self.settings.window_slack if len(ready) > 1 else 1
        window = self._ladder.book([s.row for s in ready if s.row is not None], slack=slack)
        assert window is not None
        with self.stream.active():
            self._windows.launch(
                [row.slot for row in window.rows],
                window.num_steps,
                longest=max(sequence.length for sequence in ready),
                max_top_k=self._max_top_k(ready),
            )
            fence = self.stream.fence()
        self._fly(tuple(ready), (), window, fence)
        if window.num_steps > 1:
            self.counters.use("talker_step_window", window.num_steps)
        return True

    def _fly(
        self,
        sequences: tuple[TalkerSequence, ...],
        prompt_lens: tuple[int, ...],
        window: StepWindow | None,
        fence: Fence,
    ) -> None:
        self._num_flights += 1
        self._flight = _Flight(self._num_flights, sequences, prompt_lens, window, fence)

    def _max_top_k(self, sequences: list[TalkerSequence]) -> int:
        return max(top_k_of(sequence.job.sampling, self._config.num_codec_ids) for sequence in sequences)

    def _commit_starts(self, flight: _Flight) -> None:
        codes = self._starts.read(len(flight.sequences))
        for sequence, prompt_len, code in zip(flight.sequences, flight.prompt_lens, codes, strict=True):
            if not self._is_live(sequence):
                continue
            if code == POISON:
                self._finish(sequence, "error")
            else:
                self._deliver(sequence, sequence.started(prompt_len, code))

    def _commit_window(self, flight: _Flight, window: StepWindow) -> None:
        drawn = self._windows.read(len(window.rows), window.num_steps)
        for sequence, row, codes in zip(flight.sequences, window.rows, drawn, strict=True):
            first_draw = row.num_draws
            valid = row.commit(window, codes)
            if not self._is_live(sequence):
                continue
            if POISON in codes:
                self._finish(sequence, "error")
                continue
            num_draws = row.num_draws - first_draw
            self.counters.use("talker_wasted_steps", window.num_steps - num_draws)
            self.counters.use("talker_sampler", num_draws)
            self._deliver(sequence, sequence.stepped(valid, num_draws))

    def _is_live(self, sequence: TalkerSequence) -> bool:
        """Whether its outputs still count: a later job may have taken the name."""
        return self._sequences.get(sequence.job.seq_id) is sequence

    def _deliver(self, sequence: TalkerSequence, output: TalkerOutput) -> None:
        self._outputs.append(output)
        if output.finish_reason is not None:
            self._release(sequence)
        elif output.condition_ended and sequence.is_closed and not sequence.conditions:
            self._finish(sequence, "stop")
        elif sequence.slot is not None and not sequence.needs_slot:
            self._slots.give_back(sequence.slot, sequence.job.seq_id)
            sequence.leave_slot()

    def _finish(self, sequence: TalkerSequence, reason: TalkerFinish) -> None:
        self._outputs.append(sequence.output(finish_reason=reason))
        self._release(sequence)

    def _release(self, sequence: TalkerSequence) -> None:
        """The job is over: forget it, and take its slot back once nothing in flight writes to it."""
        seq_id = sequence.job.seq_id
        del self._sequences[seq_id]
        if sequence.slot is None:
            return
        if sequence.row is not None:
            sequence.row.drop()
        if self._flight is not None and sequence in self._flight.sequences:
            self._slots.retire(sequence.slot, seq_id, self._flight.flight_id)
        else:
            self._slots.give_back(sequence.slot, seq_id)
