"""The Thinker stage: admits, extends, parks and ends sequences, launches their steps and collects what they drew."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.engine.block_manager import BlockManager
from antiphon.engine.context_window import Cut
from antiphon.engine.counters import Counters
from antiphon.engine.device_stream import DeviceStream
from antiphon.engine.scheduler import Scheduler, SchedulerConfig
from antiphon.engine.sequence import Sequence, SequenceState, StepRow
from antiphon.engine.settings import ThinkerSettings
from antiphon.engine.thinker_messages import ThinkerJob, ThinkerOutput, ThinkerPiece, TurnEnd
from antiphon.engine.thinker_model import TextModel, TextWeights
from antiphon.engine.thinker_plan import StepPlanner
from antiphon.engine.thinker_runner import POISONED, StepResult, ThinkerRunner
from antiphon.engine.thinker_turns import PieceReader, SequenceRecord
from antiphon.engine.thinker_wire import StepSender
from antiphon.layers.parallel import ALONE, ParallelGroup


@dataclass(frozen=True)
class Launch:
    """A step on its way: its rows in the order of the results."""

    rows: tuple[StepRow, ...]
    result: StepResult
    start_s: float


class ThinkerEngine:
    """Driven by one thread; nothing here waits for the device.

    With run-ahead a decode step is launched before the tokens of the one before are known: the device feeds them on. A
    row that turns out to have gone past its sequence's end is dropped when it is collected.

    The text side of *model* is taken over (see `TextWeights`); its encoders are not used here.
    """

    def __init__(
        self,
        model: TextModel,
        settings: ThinkerSettings,
        *,
        device: torch.device,
        dtype: torch.dtype,
        counters: Counters,
        stream: DeviceStream,
        clock: Callable[[], float],
        group: ParallelGroup = ALONE,
    ) -> None:
        weights = TextWeights(model, device=device, group=group)
        self._runner = ThinkerRunner(weights, settings, dtype=dtype, counters=counters, stream=stream)
        self._sender = StepSender(group, stream=stream, dtype=dtype)
        self._max_in_flight = 2 if settings.use_run_ahead else 1
        self._scheduler = Scheduler(
            SchedulerConfig(
                max_num_seqs=settings.max_num_seqs,
                max_batched_tokens=settings.max_batched_tokens,
                max_model_len=settings.max_model_len,
                max_in_flight=self._max_in_flight,
            ),
            BlockManager(
                settings.kv_cache_blocks,
                block_size=settings.block_size,
                num_host_blocks=settings.host_spill_blocks,
                use_prefix_cache=settings.use_prefix_cache,
            ),
        )
        self._book = self._scheduler.book
        self._reader = PieceReader(vocab_size=weights.vocab_size, hidden_size=weights.config.llm.hidden_size)
        self._planner = StepPlanner(settings.max_num_seqs, self._runner.bucket_for)
        self._counters, self._clock, self._stream = counters, clock, stream
        self._records: dict[str, SequenceRecord] = {}
        self._launches: deque[Launch] = deque()
        self._outputs: list[ThinkerOutput] = []
        self._last_step_s = 0.0

    def warm_up(self, report: Callable[[str], None]) -> None:
        """Capture and load everything that the first request would otherwise wait for; *report* is told what."""
        self._runner.warm_up(report)

    def admit(self, job: ThinkerJob) -> None:
        """Take a sequence in.

        Raises:
            PromptError, ContextLengthError, SamplingError: the job can never run.
            CapacityError: too many wait.
            StateError: its id is in use.
        """
        piece, turn, rows = self._reader.read(job, None)
        seq = Sequence(job.seq_id, piece, is_resumable=job.is_resumable)
        self._book.admit(seq)
        self._records[job.seq_id] = SequenceRecord(seq, turn, rows, rows_from=job.rows_from, admitted_s=self._clock())

    def extend(self, seq_id: str, piece: ThinkerPiece) -> None:
        """Begin another turn of a resumable sequence, once the one that draws has ended. Raises as `admit`."""
        seq = self._book.get(seq_id)
        record = self._records[seq_id]
        last = record.waiting[-1] if record.waiting else record.turn
        read, turn, rows = self._reader.read(piece, last.sampling)
        self._book.extend(seq_id, read)
        record.rows.update(rows)
        record.waiting.append(turn)
        record.begin_absorbed()
        assert record.seq is seq

    def close_input(self, seq_id: str) -> None:
        """No more pieces come: the sequence ends with its last turn."""
        self._book.close_input(seq_id)
        self._finish_if_ended(self._records[seq_id], TurnEnd.STOP)

    def park(self, seq_id: str) -> None:
        """Break the turn of a resumable sequence off, keeping what was collected; nothing more comes from it."""
        record = self._records[self._book.get(seq_id).seq_id]
        self._book.park(seq_id)
        record.begin_absorbed()
        self._finish_if_ended(record, TurnEnd.ABORT)

    def abort(self, seq_id: str) -> None:
        """End a sequence at any point; nothing happens if it has ended already."""
        if self._book.abort(seq_id):
            self._finish_if_ended(self._records[seq_id], TurnEnd.ABORT)

    def can_cut(self, seq_id: str) -> bool:
        """Whether `cut` may be called now: between two turns, once the last launch of the first has come back."""
        seq = self._book.get(seq_id)
        return not seq.in_flight and seq.state in (SequenceState.PARKED, SequenceState.SPILLED)

    def cut(self, seq_id: str, cut: Cut) -> None:
        """Shorten the context of a parked sequence that has no row in flight. Raises StateError otherwise."""
        plan = self._scheduler.cut(seq_id, cut)
        self._sender.send_cut(plan)
        self._runner.cut(plan)
        self._records[seq_id].keep_rows()
        self._counters.use("context_cut")

    def launch(self) -> bool:
        """Issue the next step if one can run and the last ones leave room; returns whether one was issued."""
        if len(self._launches) >= self._max_in_flight:
            return False
        scheduled = self._scheduler.schedule()
        if not scheduled.rows and not scheduled.moves:
            return False
        for record in {row.seq.seq_id: self._records[row.seq.seq_id] for row in scheduled.prefills}.values():
            for media in record.rows.values():
                if media.ready is not None:
                    self._stream.follow(media.ready)
            if record.admitted_s is not None:
                self._counters.observe("stage_in_queue_s", self._clock() - record.admitted_s, "thinker")
                record.admitted_s = None
        step = self._planner.plan(scheduled, self._records, self._reader.duplex_ids)
        self._sender.send_step(step)
        start_s = self._clock()
        result = self._runner.run(step)
        if self._launches and scheduled.rows:
            self._counters.use("thinker_run_ahead")
        if scheduled.rows:
            self._launches.append(Launch(scheduled.rows, result, start_s))
        return bool(scheduled.rows)

    def collect(self) -> list[ThinkerOutput]:
        """What the finished launches brought, in order; never waits."""
        while self._launches and self._launches[0].result.fence.is_done():
            launch = self._launches.popleft()
            self._last_step_s = self._clock() - launch.start_s
            for index, (row, drawn) in enumerate(zip(launch.rows, launch.result.drawn.tolist(), strict=True)):
                self._take(row, drawn, index, launch.result)
        outputs, self._outputs = self._outputs, []
        return outputs

    @property
    def has_work(self) -> bool:
        """Whether a launch is on its way, or a sequence wants one, or outputs wait to be collected."""
        return bool(self._launches or self._book.running or self._book.queue or self._outputs)

    def snapshot(self) -> dict[str, float]:
        """Gauges of scheduler and cache, launches on their way, and the time of the last step."""
        return {
            **self._scheduler.snapshot(),
            "launches_in_flight": len(self._launches),
            "seats_lent": self._planner.num_lent,
            "last_step_ms": 1e3 * self._last_step_s,
        }

    def close(self) -> None:
        """Let the other ranks of the group go."""
        self._sender.send_stop()

    def _take(self, row: StepRow, drawn: int, index: int, result: StepResult) -> None:
        """Commit one row of a finished launch."""
        seq = row.seq
        if drawn == POISONED and seq.state is SequenceState.RUNNING:
            # Before the commit, which would offer its blocks to others.
            self._book.abort(seq.seq_id)
            error = "the model's values are not finite; check the media of this request"
            self._finish_if_ended(self._records[seq.seq_id], TurnEnd.ERROR, error=error)
        record = self._records.get(seq.seq_id)
        turn = None if record is None or record.seq is not seq else record.turn
        # A full turn draws once more to get the row of its last token; what it draws is dropped.
        counts = turn is not None and seq.state is SequenceState.RUNNING and row.draws and not turn.is_full
        kept, stop_id = turn.judge(drawn) if counts and turn is not None else (None, None)
        new_ids: tuple[int, ...] = () if kept is None else (kept,)
        if not self._scheduler.commit(row, new_ids):
            return
        assert record is not None
        assert turn is not None
        hidden: Tensor | None = None
        row_ids: tuple[int, ...] = ()
        if turn.wants_hidden and row.draws and turn.generated:
            assert result.hidden is not None
            hidden, row_ids = result.hidden[index : index + 1], (turn.generated[-1],)
        if index in result.given:
            hidden = result.given[index]
            end = row.start + row.num_tokens
            row_ids = new_ids = tuple(seq.tokens[end - len(hidden) : end])
            record.rows_from = end
        if counts:
            record.take(drawn, kept)
        reason = None
        if stop_id is not None:
            reason = TurnEnd.STOP
        elif row.draws and (not new_ids or (seq.draws_left == 0 and seq.num_draws_in_flight == 0)):
            reason, stop_id = TurnEnd.LENGTH, turn.limit_stop_id
        if reason is not None:
            self._book.end_turn(seq.seq_id)
        has_ended = reason is not None or (seq.state is not SequenceState.RUNNING)
        if has_ended or new_ids or row_ids:
            self._outputs.append(
                ThinkerOutput(
                    seq_id=seq.seq_id,
                    epoch=row.epoch,
                    new_ids=new_ids,
                    row_ids=row_ids,
                    hidden=hidden,
                    ready=result.fence if row_ids else None,
                    has_ended_turn=has_ended,
                    finish_reason=reason,
                    stop_id=stop_id,
                    is_turn_open=record.memory.is_turn_open,
                    is_last=seq.is_ended,
                    num_prompt_tokens=record.num_prompt_tokens,
                    num_cached_tokens=seq.num_cached_tokens or 0,
                )
            )
        if seq.is_ended:
            del self._records[seq.seq_id]
        else:
            record.begin_absorbed()

    def _finish_if_ended(self, record: SequenceRecord, reason: TurnEnd, *, error: str | None = None) -> None:
        """Report the end of a sequence that ended outside a commit."""
        seq = record.seq
        if not seq.is_ended:
            return
        del self._records[seq.seq_id]
        self._outputs.append(
            ThinkerOutput(
                seq_id=seq.seq_id,
                epoch=seq.epoch,
                has_ended_turn=True,
                finish_reason=reason,
                is_turn_open=record.memory.is_turn_open,
                is_last=True,
                num_prompt_tokens=record.num_prompt_tokens,
                num_cached_tokens=seq.num_cached_tokens or 0,
                error=error,
            )
        )
