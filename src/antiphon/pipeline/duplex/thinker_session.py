"""One duplex session inside the Thinker stage: what is fed when, what a unit decided, what leaves the context.

Plain decisions; the stage carries them out. The slow twin is `eager.duplex.DuplexSession`, whose token order is kept:
`<unit>`, frames, ten audio rows, what was decided, its terminator, `</unit>`. The last two go in front of the next
unit's input, in one launch with it, unless the context must be shortened in between. Specification: model, section 5.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from antiphon.engine.context_window import ContextWindow, Cut, Unit
from antiphon.engine.duplex_decision import DecisionIds
from antiphon.engine.thinker_messages import DuplexRule, ThinkerOutput
from antiphon.pipeline.messages import SessionStart, SessionUnit
from antiphon.prompt.duplex_markup import duplex_forbidden_ids
from antiphon.prompt.tokenizer import Tokenizer

AUDIO_ROWS = 10  # a unit's second of audio


class Phase(Enum):
    """Where a session stands. Units begin in IDLE only."""

    OPENING = "opening"  # the system part is being computed
    IDLE = "idle"
    DECIDING = "deciding"  # a unit's input is fed, its answer drawn
    LISTENING = "listening"  # a unit's input is fed, nothing is drawn
    CLOSING = "closing"  # the end of a unit is fed, so that the context can be cut
    CUTTING = "cutting"  # waits for the last launch before the cut


@dataclass(frozen=True)
class UnitFeed:
    """What a unit's piece is made of: ids with placeholders, and where rows of media go."""

    ids: tuple[int, ...]
    audio_start: int
    image_starts: tuple[int, ...]
    closes_turn: bool


@dataclass(frozen=True)
class UnitResult:
    """What became of a unit; the first fields as `UnitWritten` has them.

    Attributes:
        was_told: whether it speaks was said before.
        is_cut_off: a cancel came while it ran; nothing of it is wanted.
        resets_voice: the turn was ended so that the unit could listen.
    """

    unit: SessionUnit
    ids: tuple[int, ...]
    decided_ids: tuple[int, ...]
    terminator: int
    is_listen: bool
    ends_turn: bool
    closed_turn: bool
    num_input_tokens: int
    was_told: bool
    is_cut_off: bool
    resets_voice: bool


@dataclass
class _Running:
    unit: SessionUnit
    start: int  # position of its `<unit>`
    num_input: int
    num_orphans: int
    kind: str
    decided: list[int] = field(default_factory=list)
    was_told: bool = False
    is_cut_off: bool = False


class ThinkerSession:
    """Follows one session. `length` counts everything that is fed or waits in `pending` to be fed."""

    def __init__(self, start: SessionStart, tokenizer: Tokenizer, *, marker_ids: tuple[int, ...], num_reference: int):
        self.start = start
        self.phase = Phase.OPENING
        self.is_turn_open = False
        self.length = len(start.prefix) + num_reference + len(start.suffix)
        self.window = ContextWindow(start.window, marker_ids=marker_ids, special_ids=tokenizer.special_ids)
        self.window.begin(len(start.prefix) + num_reference, start.suffix)
        self.pending: tuple[int, ...] = ()
        self.epoch = start.epoch
        self._tokenizer = tokenizer
        self._special = tokenizer.special
        self._ids = DecisionIds(
            chunk_eos=self._special.chunk_eos,
            turn_eos=self._special.turn_eos,
            tokenizer_eos=self._special.im_end,
            forbidden=duplex_forbidden_ids(tokenizer),
        )
        self._running: _Running | None = None
        self._num_finished = 0
        self._num_orphans = 0
        self._cut: Cut | None = None

    @property
    def unit(self) -> SessionUnit:
        """The one that runs."""
        assert self._running is not None
        return self._running.unit

    @property
    def is_running(self) -> bool:
        return self._running is not None

    @property
    def cut(self) -> Cut:
        """What is due in CUTTING."""
        assert self._cut is not None
        return self._cut

    def cancel(self, epoch: int) -> None:
        """What is being said is cut off: an open turn is ended once, by the running unit or in front of the next."""
        self.epoch = max(self.epoch, epoch)
        if self._running is not None:
            self._running.is_cut_off = True
        elif self.is_turn_open:
            self.is_turn_open = False
            if self.pending:  # the end of the last unit, which is still the newest
                self.window.lengthen_last(1)
            else:
                self._num_orphans += 1
            self.pending = (self._special.turn_eos, *self.pending)
            self.length += 1

    def num_needed(self, unit: SessionUnit, num_image_rows: int) -> int:
        """Positions that *unit* and its longest answer take behind what is there."""
        marks = 2 * len(unit.images)
        return 1 + AUDIO_ROWS + num_image_rows + marks + unit.max_tokens + 2

    def begin(self, unit: SessionUnit, image_rows: Sequence[int]) -> UnitFeed:
        """The ids of *unit*'s piece, whose images take *image_rows* rows each."""
        assert self.phase is Phase.IDLE
        special = self._special
        ids = [*self.pending]
        closes_turn = bool(ids) and ids[0] == special.turn_eos
        num_before = len(ids)
        ids.append(special.unit_start)
        image_starts = []
        for image, num_rows in zip(unit.images, image_rows, strict=True):
            ids.append(special.slice_start if image.is_slice else special.image_start)
            image_starts.append(len(ids))
            ids += [special.unk] * num_rows
            ids.append(special.slice_end if image.is_slice else special.image_end)
        audio_start = len(ids)
        ids += [special.unk] * AUDIO_ROWS
        num_input = len(ids) - num_before
        self._running = _Running(unit, self.length, num_input, self._num_orphans, "omni" if unit.images else "audio")
        self._num_orphans = 0
        self.length += num_input
        self.pending = ()
        # A unit that came before a cancel is still heard; its answer is not wanted any more.
        listens = unit.force_listen or unit.epoch < self.epoch
        self.phase = Phase.LISTENING if listens else Phase.DECIDING
        return UnitFeed(tuple(ids), audio_start, tuple(image_starts), closes_turn)

    def rule(self) -> DuplexRule:
        """How the running unit's answer is drawn."""
        unit, special = self.unit, self._special
        return DuplexRule(
            sampling=unit.sampling,
            ids=self._ids,
            listen_id=special.listen,
            tts_bos_id=special.tts_bos,
            chunk_tts_eos_id=special.chunk_tts_eos,
            max_tokens=unit.max_tokens,
            seed=self.start.seed,
            accepts=self._accepts if self.start.max_unit_chars is not None else None,
        )

    def take(self, output: ThinkerOutput) -> bool:
        """Note what was drawn for the running unit; returns whether it is certain from now on that it speaks."""
        running = self._running
        assert running is not None
        running.decided += output.new_ids
        self.is_turn_open = output.is_turn_open
        # Behind the end of a turn a unit may still listen.
        if running.was_told or all(token == self._special.turn_eos for token in running.decided):
            return False
        running.was_told = True
        return True

    def finish(self, terminator: int | None) -> UnitResult:
        """The unit's turn has ended, by *terminator*; None: it only listened."""
        running, special = self._running, self._special
        assert running is not None
        is_forced = terminator is None
        terminator = special.listen if terminator is None else terminator
        decided, collected = tuple(running.decided), tuple(running.decided[1:])
        closes_turn = self.is_turn_open and (is_forced or running.is_cut_off)
        self.pending = (terminator, special.unit_end)
        if closes_turn:
            decided += (special.turn_eos,)
            self.pending = (special.turn_eos, *self.pending)
            self.is_turn_open = False
        self.length += len(decided) + 2
        is_listen = terminator == special.listen
        has_ended_turn = bool(decided) and decided[-1] == special.turn_eos
        unit = Unit(
            id=self._num_finished,
            length=self.length - running.start,
            kind=running.kind,
            is_listen=is_listen,
            content_ids=collected,
            text="" if is_listen else self._text(collected),
            num_orphans=running.num_orphans,
        )
        self._num_finished += 1
        self._running = None
        self._cut = self.window.add(unit, self.length)
        self.phase = Phase.IDLE if self._cut is None else Phase.CLOSING
        return UnitResult(
            unit=running.unit,
            ids=collected,
            decided_ids=decided,
            terminator=terminator,
            is_listen=is_listen,
            ends_turn=has_ended_turn and not is_listen,
            closed_turn=has_ended_turn and is_listen,
            num_input_tokens=running.num_input,
            was_told=running.was_told,
            is_cut_off=running.is_cut_off,
            resets_voice=closes_turn and is_forced,
        )

    def take_pending(self) -> tuple[tuple[int, ...], bool]:
        """In CLOSING: the ids to feed now, and whether the first of them closes the turn."""
        ids, self.pending = self.pending, ()
        return ids, ids[0] == self._special.turn_eos

    def applied_cut(self) -> int:
        """The cut was carried out; returns by how many rows the context became shorter."""
        assert self._cut is not None
        before, self.length = self.length, self._cut.length + len(self.pending)
        self._cut = None
        self.phase = Phase.IDLE
        return before - self.length

    def _accepts(self, ids: tuple[int, ...]) -> bool:
        assert self.start.max_unit_chars is not None
        return len(self._text(ids)) < self.start.max_unit_chars

    def _text(self, ids: Sequence[int]) -> str:
        return self._tokenizer.decode(ids, skip_special=True)
