"""The numbers by which one seat of the device decides, and where its session stands."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class DuplexIds:
    """Ids that the decision knows by role, the same for all sessions. *forbidden* includes the chunk end."""

    chunk_eos: int
    turn_eos: int
    tokenizer_eos: int
    listen: int
    tts_bos: int
    forbidden: tuple[int, ...]

    @property
    def roles(self) -> tuple[int, ...]:
        """In the order of `decision_rows.Role`."""
        return (self.chunk_eos, self.turn_eos, self.tokenizer_eos, self.listen, self.tts_bos)

    @property
    def all(self) -> tuple[int, ...]:
        return (*self.roles, *self.forbidden)


@dataclass(frozen=True, kw_only=True)
class DuplexSeatRule:
    """The decision rule of one unit, and where its session stands when the seat is taken.

    Attributes:
        top_k: 0 is off.
        top_p: 0 is off.
        listen_top_k: 0 is off.
        draw_step: draws of the counter RNG made so far by the sequence.
        history: recorded ids, oldest first, at most *penalty_window*.
    """

    is_greedy: bool
    temperature: float
    top_k: int
    top_p: float
    listen_prob_scale: float
    listen_top_k: int
    repetition_penalty: float
    penalty_window: int
    length_penalty: float
    seed: int
    draw_step: int
    is_turn_open: bool
    history: tuple[int, ...]
