"""What the engine remembers of each sequence beside the scheduler: its turns' rules, drawn ids and media rows."""

from collections import deque
from dataclasses import dataclass, field

from torch import Tensor

from antiphon.core.errors import PromptError, SamplingError
from antiphon.engine.prefix_hash import MediaSpan
from antiphon.engine.sequence import Piece, Sequence
from antiphon.engine.text_sampler_state import FOREVER, MAX_BANNED, SeatRule
from antiphon.engine.thinker_messages import MediaRows, ThinkerPiece, ThinkerSampling


@dataclass
class Turn:
    """One turn: its rule and the ids drawn in it."""

    sampling: ThinkerSampling
    wants_hidden: bool
    generated: list[int] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        return len(self.generated) >= self.sampling.max_tokens

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


class SequenceRecord:
    """A live sequence.

    Attributes:
        turn: the open one, or the last.
        waiting: turns of the pieces that wait in the scheduler, in the same order.
        rows: media rows by the id of their span.
        num_draws: tokens drawn over all turns, stop ids included: the step of the counter RNG.
    """

    def __init__(self, seq: Sequence, turn: Turn, rows: dict[int, MediaRows]) -> None:
        self.seq, self.turn, self.rows = seq, turn, rows
        self.num_prompt_tokens = len(seq.tokens)
        self.waiting: deque[Turn] = deque()
        self.num_draws = 0

    def begin_absorbed(self) -> None:
        """Go on to the turns whose pieces the scheduler has taken from its queue."""
        while len(self.waiting) > len(self.seq.pieces):
            self.turn = self.waiting.popleft()

    def keep_rows(self) -> None:
        """Forget media rows whose span a cut dropped."""
        spans = {span.id for span in self.seq.media}
        self.rows = {span_id: rows for span_id, rows in self.rows.items() if span_id in spans}


class PieceReader:
    """Checks pieces and turns them into what the scheduler understands."""

    def __init__(self, *, vocab_size: int, hidden_size: int) -> None:
        self._vocab_size, self._hidden_size = vocab_size, hidden_size
        self._next_span = 0

    def read(self, piece: ThinkerPiece, last: ThinkerSampling | None) -> tuple[Piece, Turn, dict[int, MediaRows]]:
        """The scheduler's piece, the turn it opens, and its media rows by span id.

        Raises:
            PromptError: an id outside the vocabulary, or media that do not fit their piece.
            SamplingError: a stop id outside the vocabulary, too many of them, or no rule to draw by.
        """
        if any(not 0 <= token < self._vocab_size for token in piece.ids):
            raise PromptError(f"the prompt holds an id outside 0 … {self._vocab_size - 1}, the model's vocabulary")
        sampling = piece.sampling or last
        if sampling is None:
            if piece.decode:
                raise SamplingError("a turn that draws needs sampling parameters; none were given so far")
            sampling = ThinkerSampling()
        self._check_ids(sampling)
        spans, rows, end = [], {}, 0
        for media in piece.media:
            self._check_rows(media, end, len(piece.ids))
            end = media.start + len(media.rows)
            spans.append(MediaSpan(media.start, end, media.digest, self._next_span))
            rows[self._next_span] = media
            self._next_span += 1
        # The row of the last token comes with the draw after it, which is then dropped.
        max_draws = (sampling.max_tokens + piece.wants_hidden) if piece.decode else 0
        read = Piece(
            ids=piece.ids,
            media=tuple(spans),
            max_draws=max_draws,
            deadline_s=piece.deadline_s,
            priority=piece.priority,
            epoch=piece.epoch,
        )
        return read, Turn(sampling, piece.wants_hidden and piece.decode), rows

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
        if first < last:
            media = record.rows[span.id]
            parts.append((first - start, media.rows[first - span.start : last - span.start], media))
    return parts
