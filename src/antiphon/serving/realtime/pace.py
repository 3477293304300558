"""Whether a session's units are over within their seconds, and what is left out while they are not."""

DROP_LAG_S = 1.0  # the answers come a whole unit late


class Pace:
    """Follows one session. The lag is what a client that sends in real time would have to wait for by now.

    While the session is behind, its pictures are left out, from a lag of a second until there is none: they cost the
    most and are missed the least. Sound never is left out here; the limit of what may wait does that, by an error.
    """

    def __init__(self) -> None:
        self.lag_s = 0.0
        self.is_behind = False
        self.num_dropped_frames = 0

    def note(self, unit_s: float) -> bool:
        """A unit took *unit_s*. Returns whether the session is behind from now on, and was not before."""
        self.lag_s = max(0.0, self.lag_s + unit_s - 1.0)
        was_behind = self.is_behind
        self.is_behind = self.lag_s >= DROP_LAG_S or (was_behind and self.lag_s > 0.0)
        return self.is_behind and not was_behind

    def keep(self, frames: tuple[bytes, ...]) -> tuple[bytes, ...]:
        """What of a unit's pictures the model is shown."""
        if not self.is_behind:
            return frames
        self.num_dropped_frames += len(frames)
        return ()
