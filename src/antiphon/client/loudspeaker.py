"""A loudspeaker without sound: what a listener has heard by now of what came, so that the server may be told."""

from dataclasses import dataclass


@dataclass
class _Piece:
    response_id: str
    begins_s: float
    duration_s: float


class Loudspeaker:
    """Plays what it is given at its own speed, one piece after another. Times are seconds on any one clock.

    Attributes:
        underruns_s: for how long in all it fell silent inside a response, because its next piece was late.
    """

    def __init__(self) -> None:
        self._pieces: list[_Piece] = []
        self._heard_s: dict[str, float] = {}
        self.underruns_s = 0.0

    def put(self, response_id: str, duration_s: float, now_s: float) -> None:
        """A piece of sound has come."""
        last = self._pieces[-1] if self._pieces else None
        ends_s = last.begins_s + last.duration_s if last is not None else now_s
        if last is not None and last.response_id == response_id and now_s > ends_s:
            self.underruns_s += now_s - ends_s
        self._settle(now_s)
        self._pieces.append(_Piece(response_id, max(now_s, ends_s), duration_s))

    def clear(self, now_s: float) -> None:
        """Fall silent at once."""
        self._settle(now_s)
        for piece in self._pieces:
            self._add(piece, now_s)
        self._pieces.clear()

    def heard_s(self, response_id: str, now_s: float) -> float:
        """Seconds of the response that have sounded."""
        running = [piece for piece in self._pieces if piece.response_id == response_id]
        return self._heard_s.get(response_id, 0.0) + sum(_sounded_s(piece, now_s) for piece in running)

    def left_s(self, now_s: float) -> float:
        """Until it falls silent."""
        last = self._pieces[-1] if self._pieces else None
        return 0.0 if last is None else max(0.0, last.begins_s + last.duration_s - now_s)

    def _settle(self, now_s: float) -> None:
        """Of what has sounded to its end only the length is kept."""
        while self._pieces and self._pieces[0].begins_s + self._pieces[0].duration_s <= now_s:
            self._add(self._pieces.pop(0), now_s)

    def _add(self, piece: _Piece, now_s: float) -> None:
        self._heard_s[piece.response_id] = self._heard_s.get(piece.response_id, 0.0) + _sounded_s(piece, now_s)


def _sounded_s(piece: _Piece, now_s: float) -> float:
    return min(piece.duration_s, max(0.0, now_s - piece.begins_s))
