"""What of each response was made, sent, played and heard, and the text that belongs to it (specification section 12).

Positions are samples of 24 kHz speech inside; milliseconds are what the wire speaks.
"""

from dataclasses import dataclass, field

from antiphon.realtime.limits import SPEECH_RATE_HZ
from antiphon.wire.realtime.json_frame import JsonObject

_PER_MS = SPEECH_RATE_HZ // 1000
# Every delta shows the marks of its whole response, so a very long one gets coarser where it is oldest.
MAX_MARKS = 256


@dataclass(frozen=True)
class Mark:
    """Up to here in the text, up to there in the audio."""

    text_chars: int
    audio_end_ms: float


@dataclass
class Playback:
    """The cursors of one response. Each only rises; a truncation caps what counts as heard for good."""

    response_id: str
    turn_id: int | None = None  # the user's turn that was the last one when the response began
    text: str = ""
    num_samples: int = 0
    played_ms: float = 0.0
    committed_ms: float = 0.0
    cap_ms: float | None = None
    last_sent_at_s: float | None = None
    plays_until_s: float = 0.0  # if the client began at once and was never late
    is_acknowledged: bool = False
    is_released: bool = False  # nothing is owed any more
    marks: list[Mark] = field(default_factory=list)

    @property
    def item_id(self) -> str:
        return f"item_{self.response_id}"

    @property
    def sent_ms(self) -> float:
        return self.num_samples / _PER_MS

    @property
    def is_owed(self) -> bool:
        """Whether the client has audio that it has not confirmed."""
        return not self.is_released and self.sent_ms > self.committed_ms

    def add(self, num_samples: int, text: str, now_s: float) -> None:
        """A piece of speech was sent, saying *text*."""
        self.num_samples += num_samples
        self.text += text
        self.last_sent_at_s = now_s
        self.plays_until_s = max(self.plays_until_s, now_s) + num_samples / SPEECH_RATE_HZ
        if text or num_samples:
            self.marks.append(Mark(len(self.text), self.sent_ms))
            if len(self.marks) > MAX_MARKS:
                del self.marks[: MAX_MARKS // 2 : 2]

    def acknowledge(self, played_ms: float, committed_ms: float | None) -> None:
        """What the client says it played; *committed_ms* is what the user surely heard, by default the same."""
        played = max(0.0, played_ms)
        heard = max(0.0, played if committed_ms is None else committed_ms)
        limit = self.cap_ms
        if limit is not None:
            played, heard = min(played, limit), min(heard, limit)
        self.played_ms = max(self.played_ms, played)
        self.committed_ms = max(self.committed_ms, heard)
        self.is_acknowledged = True
        if self.committed_ms >= self.sent_ms:
            self.is_released = True

    def truncate(self, audio_end_ms: float) -> None:
        """The user heard no more than this, whatever is acknowledged before or later."""
        self.cap_ms = audio_end_ms if self.cap_ms is None else min(self.cap_ms, audio_end_ms)
        self.played_ms = min(max(self.played_ms, self.cap_ms), self.cap_ms)
        self.committed_ms = self.cap_ms
        self.is_acknowledged = True
        self.release()

    def heard_all(self) -> None:
        """The client never said, and by now it must have played everything."""
        if not self.is_released:
            self.acknowledge(self.sent_ms, None)
            self.is_released = True

    def release(self) -> None:
        """No more will be owed: the client was told to drop what it has."""
        self.is_released = True
        self.plays_until_s = 0.0

    def heard_text(self) -> str:
        """The prefix of the text whose speech was heard, interpolated between marks."""
        return self.text[: self._chars_at(self.committed_ms)]

    def shown_text(self) -> str:
        """The whole text, or up to the truncation."""
        return self.text if self.cap_ms is None else self.text[: self._chars_at(self.cap_ms)]

    def _chars_at(self, position_ms: float) -> int:
        chars, start_ms = 0, 0.0
        if self.num_samples and position_ms >= self.sent_ms:
            return len(self.text)
        for mark in self.marks:
            if position_ms >= mark.audio_end_ms > start_ms:
                chars, start_ms = mark.text_chars, mark.audio_end_ms
                continue
            if position_ms <= start_ms:
                break
            share = (position_ms - start_ms) / (mark.audio_end_ms - start_ms)
            return chars + int((mark.text_chars - chars) * share)
        return chars

    def shown_marks(self) -> list[JsonObject]:
        return [{"text_chars": mark.text_chars, "audio_end_ms": mark.audio_end_ms} for mark in self.marks]

    def cursors(self) -> JsonObject:
        return {
            "generated_ms": self.sent_ms,
            "sent_ms": self.sent_ms,
            "played_ms": self.played_ms,
            "committed_ms": self.committed_ms,
        }


class PlaybackLedger:
    """The playbacks of a session, newest last; settled old ones are forgotten."""

    KEPT = 64

    def __init__(self, slack_s: float) -> None:
        self._slack_s = slack_s
        self._playbacks: dict[str, Playback] = {}

    def open(self, response_id: str, turn_id: int) -> Playback:
        playback = self._playbacks[response_id] = Playback(response_id, turn_id)
        while len(self._playbacks) > self.KEPT:
            del self._playbacks[next(iter(self._playbacks))]
        return playback

    @property
    def num_kept(self) -> int:
        return len(self._playbacks)

    def get(self, response_id: str) -> Playback | None:
        return self._playbacks.get(response_id)

    def owed(self) -> list[Playback]:
        return [playback for playback in self._playbacks.values() if playback.is_owed]

    def is_playing(self, now_s: float) -> bool:
        """Whether a client that says nothing about it must be playing still."""
        return any(playback.plays_until_s > now_s for playback in self._playbacks.values())

    def latest(self) -> Playback | None:
        return next(reversed(self._playbacks.values()), None)

    def deadline(self, playback: Playback) -> float | None:
        """When what was not acknowledged counts as heard."""
        sent_at = playback.last_sent_at_s
        return None if sent_at is None else sent_at + playback.sent_ms / 1000 + self._slack_s

    def next_deadline(self, running: str | None) -> float | None:
        """Of all that is owed, except by the response that still runs."""
        deadlines = [self.deadline(owed) for owed in self.owed() if owed.response_id != running]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def settle(self, now_s: float, running: str | None) -> list[Playback]:
        """Count as heard what must have been played by now; gives those playbacks."""
        settled = []
        for playback in self.owed():
            deadline = self.deadline(playback)
            if playback.response_id != running and deadline is not None and now_s >= deadline:
                playback.heard_all()
                settled.append(playback)
        return settled
