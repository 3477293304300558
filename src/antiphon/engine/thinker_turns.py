"""What the engine remembers of each sequence beside the scheduler: its turns' rules, drawn ids and media rows."""

from collections import deque
from dataclasses import dataclass, field

from torch import Tensor

from antiphon.core.errors import PromptError, SamplingError
from antiphon.engine.duplex_memory import DuplexMemory
from antiphon.engine.duplex_seat_rule import DuplexIds, DuplexSeatRule
from antiphon.engine.duplex_turn import DuplexTurn, duplex_ids
from antiphon.engine.prefix_hash import UNSHARED, MediaSpan
from antiphon.engine.sequence import Piece, Sequence
from antiphon.engine.text_sampler_state import FOREVER, MAX_BANNED, SeatRule
from antiphon.engine.thinker_messages import DuplexRule, MediaRows, ThinkerJob, ThinkerPiece, ThinkerSampling


@dataclass
class Turn:
    """One turn: its rule and the ids drawn in it."""

    sampling: ThinkerSampling
    wants_hidden: bool
    closes_turn: bool = False
    generated: list[int] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        return len(self.generated) >= self.max_kept

    @property
    def max_kept(self) -> int:
        return self.sampling.max_tokens

    @property
    def limit_stop_id(self) -> None:
        """Nothing stands for the end of a text that reached its limit."""
        return None

    def judge(self, drawn: int) -> tuple[int | None, int | None]:
        """The id that is kept, or the one that ends the turn instead."""
        return (None, drawn) if drawn in self.sampling.stop_ids else (drawn, None)

    def rule(self, draw_step: int) -> SeatRule:
        sampling = self.sampling
        return SeatRule(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            min_p=sampling.min_p,
            repetition_penalty=sampling.repetition_penalty,
            frequency_penalty=sampling.frequency_penalty,
            presence_penalty=sampling.presence_penalty,
            top_k=sampling.top_k,
            seed=sampling.seed,
            banned=tuple((token, FOREVER) for token in sorted(sampling.never_ids))
            + tuple((token, sampling.min_tokens) for token in sorted(sampling.stop_ids) if sampling.min_tokens),
            draw_step=draw_step,
            turn_step=len(self.generated),
            generated=tuple(self.generated),
        )


AnyTurn = Turn | DuplexTurn


class SequenceRecord:
    """A live sequence.

    Attributes:
        turn: the open one, or the last.
        waiting: turns of the pieces that wait in the scheduler, in the same order.
        rows: media rows by the id of their span.
        num_draws: tokens drawn over all text turns, stop ids included: the step of the counter RNG.
        memory: of its duplex turns.
        rows_from: the first given token whose row is still to be reported; None: there are none.
        admitted_s: when it came, on the engine's clock; None once its first step was launched.
    """

    def __init__(
        self,
        seq: Sequence,
        turn: AnyTurn,
        rows: dict[int, MediaRows],
        *,
        rows_from: int | None = None,
        admitted_s: float | None = None,
    ) -> None:
        self.seq, self.turn, self.rows, self.rows_from = seq, turn, rows, rows_from
        self.admitted_s = admitted_s
        self.num_prompt_tokens = len(seq.tokens)
        self.waiting: deque[AnyTurn] = deque()
        self.num_draws = 0
        self.memory = DuplexMemory()

    def begin_absorbed(self) -> None:
        """Go on to the turns whose pieces the scheduler has taken from its queue."""
        while len(self.waiting) > len(self.seq.pieces):
            self.turn = self.waiting.popleft()
            if self.turn.closes_turn:
                self.memory.is_turn_open = False

    def take(self, drawn: int, kept: int | None) -> None:
        """Go on behind what the device drew for the turn, which was judged."""
        if isinstance(self.turn, DuplexTurn):
            self.turn.take(drawn, kept, self.memory)
            return
        self.num_draws += 1
        if kept is not None:
            self.turn.generated.append(kept)

    def seat_rule(self) -> SeatRule | DuplexSeatRule:
        """How the turn's next token is drawn."""
        if isinstance(self.turn, DuplexTurn):
            return self.turn.seat_rule(self.memory)
        return self.turn.rule(self.num_draws)

    def keep_rows(self) -> None:
        """Forget media rows whose span a cut dropped."""
        spans = {span.id for span in self.seq.media}
        self.rows = {span_id: rows for span_id, rows in self.rows.items() if span_id in spans}


class PieceReader:
    """Checks pieces and turns them into what the scheduler understands.

    Attributes:
        duplex_ids: the roles of ids in duplex sessions, as the first of them named them; None before it.
    """

    def __init__(self, *, vocab_size: int, hidden_size: int) -> None:
        self.duplex_ids: DuplexIds | None = None
        self._vocab_size, self._hidden_size = vocab_size, hidden_size
        self._next_span = 0
        self._last_rule: DuplexRule | None = None  # whose ids were checked last

    def read(
        self, piece: ThinkerPiece, last: ThinkerSampling | DuplexRule | None
    ) -> tuple[Piece, AnyTurn, dict[int, MediaRows]]:
        """The scheduler's piece, the turn it opens, and its media rows by span id.

        Raises:
            PromptError: an id outside the vocabulary, or media that do not fit their piece.
            SamplingError: an id of the rule outside the vocabulary, too many stop ids, two rules, or none to draw by.
        """
        if any(not 0 <= token < self._vocab_size for token in piece.ids):
            raise PromptError(f"the prompt holds an id outside 0 … {self._vocab_size - 1}, the model's vocabulary")
        turn = self._open_turn(piece, last)
        spans, rows, end = [], {}, 0
        for media in piece.media:
            self._check_rows(media, end, len(piece.ids))
            end = media.start + len(media.rows)
            spans.append(MediaSpan(media.start, end, media.digest, self._next_span))
            rows[self._next_span] = media
            self._next_span += 1
        if isinstance(piece, ThinkerJob) and piece.rows_from is not None:
            if piece.decode or not end <= piece.rows_from < len(piece.ids):
                raise PromptError(
                    f"rows from token {piece.rows_from}: only of a job that draws nothing, behind its media"
                )
            spans.append(MediaSpan(piece.rows_from, len(piece.ids), b"", UNSHARED))
        # The row of the last token comes with the draw after it, which is then dropped.
        max_draws = (turn.max_kept + turn.wants_hidden) if piece.decode else 0
        read = Piece(
            ids=piece.ids,
            media=tuple(spans),
            max_draws=max_draws,
            deadline_s=piece.deadline_s,
            priority=piece.priority,
            epoch=piece.epoch,
        )
        return read, turn, rows

    def _open_turn(self, piece: ThinkerPiece, last: ThinkerSampling | DuplexRule | None) -> AnyTurn:
        if piece.sampling is not None and piece.duplex is not None:
            raise SamplingError("a piece has both sampling and duplex; its answer is drawn by one rule, leave one out")
        rule = piece.duplex or piece.sampling or last
        if rule is None:
            if piece.decode:
                raise SamplingError("a turn that draws needs sampling parameters; none were given so far")
            rule = ThinkerSampling()
        wants_hidden = piece.wants_hidden and piece.decode
        if isinstance(rule, DuplexRule):
            self._check_duplex_ids(rule)
            return DuplexTurn(rule, wants_hidden, piece.closes_turn)
        self._check_ids(rule)
        return Turn(rule, wants_hidden, piece.closes_turn)

    def _check_duplex_ids(self, rule: DuplexRule) -> None:
        if rule is self._last_rule:
            return
        ids = duplex_ids(rule)
        outside = [token for token in (*ids.all, rule.chunk_tts_eos_id) if not 0 <= token < self._vocab_size]
        if outside:
            raise SamplingError(
                f"a duplex rule names the id {outside[0]}; the vocabulary has the ids 0 to {self._vocab_size - 1}"
            )
        if self.duplex_ids not in (None, ids):
            raise SamplingError(
                "a duplex rule gives ids other roles than the sessions before it; one model has one set"
            )
        self.duplex_ids, self._last_rule = ids, rule

    def _check_ids(self, sampling: ThinkerSampling) -> None:
        special = sampling.stop_ids | sampling.never_ids
        outside = [token for token in special if not 0 <= token < self._vocab_size]
        if outside:
            raise SamplingError(
                f"stop_token_ids holds {outside[0]}; the vocabulary has the ids 0 to {self._vocab_size - 1}"
            )
        if len(special) > MAX_BANNED:
            raise SamplingError(f"{len(special)} stop ids are too many; at most {MAX_BANNED}, the model's own included")

    def _check_rows(self, media: MediaRows, start: int, end: int) -> None:
        if media.rows.dim() != 2 or media.rows.shape[1] != self._hidden_size or not len(media.rows):
            raise PromptError(f"media rows of shape {tuple(media.rows.shape)}; expected [n, {self._hidden_size}]")
        if media.start < start or media.start + len(media.rows) > end:
            raise PromptError(
                f"{len(media.rows)} media rows at token {media.start} overlap others or leave the piece of {end} tokens"
            )


def rows_within(record: SequenceRecord, start: int, end: int) -> list[tuple[int, Tensor, MediaRows]]:
    """Media rows at the sequence's positions [start, end): (offset from *start*, rows [n, hidden], their media)."""
    parts = []
    for span in record.seq.media:
        first, last = max(span.start, start), min(span.end, end)
        if first < last and span.id != UNSHARED:
            media = record.rows[span.id]
            parts.append((first - start, media.rows[first - span.start : last - span.start], media))
    return parts
