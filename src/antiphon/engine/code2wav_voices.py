"""The voices that streams can be opened with: each one's state is computed once, and kept while there is room."""

from collections import OrderedDict
from dataclasses import dataclass

from antiphon.core.errors import CapacityError, StateError
from antiphon.engine.code2wav_model import VoiceState


@dataclass
class Voice:
    """A state and how many streams hold it."""

    key: str
    state: VoiceState
    num_streams: int = 0


class VoiceShelf:
    """Voices by key, least recently used first out. A voice that a stream holds never leaves."""

    def __init__(self, max_voices: int, max_bytes: int) -> None:
        self.max_voices, self.max_bytes = max_voices, max_bytes
        self.num_bytes = 0
        self._voices: OrderedDict[str, Voice] = OrderedDict()

    def __len__(self) -> int:
        return len(self._voices)

    def __contains__(self, key: str) -> bool:
        return key in self._voices

    def make_room(self, num_bytes: int = 0) -> None:
        """Let voices go until one more of *num_bytes* fits; if a single one does not, it is kept alone.

        Raises:
            CapacityError: all that could go are in use.
        """
        while self._voices and (len(self._voices) >= self.max_voices or self.num_bytes + num_bytes > self.max_bytes):
            idle = next((voice for voice in self._voices.values() if voice.num_streams == 0), None)
            if idle is None:
                raise CapacityError(
                    f"code2wav: {len(self._voices)} voices of {self.num_bytes >> 20} MiB are all in use; "
                    "wait for a stream to end, or raise max_voices or max_voice_bytes"
                )
            del self._voices[idle.key]
            self.num_bytes -= idle.state.num_bytes

    def put(self, key: str, state: VoiceState) -> None:
        """Keep a voice under a new *key*; `make_room` comes first."""
        assert key not in self._voices
        self._voices[key] = Voice(key, state)
        self.num_bytes += state.num_bytes

    def touch(self, key: str) -> None:
        """Count *key* as just used."""
        self._voices.move_to_end(key)

    def lend(self, key: str) -> Voice:
        """Hold the voice for a stream."""
        voice = self._voices.get(key)
        if voice is None:
            raise StateError(f"code2wav: no voice {key!r}; add it before a stream is admitted with it")
        self.touch(key)
        voice.num_streams += 1
        return voice

    def give_back(self, voice: Voice) -> None:
        """A stream that held *voice* has ended."""
        assert voice.num_streams > 0
        voice.num_streams -= 1
