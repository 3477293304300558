"""What is known of the user's turn that is being taken in, from its first append to its commit."""

from dataclasses import dataclass, field


@dataclass
class InputTurn:
    """One input item in the making. A commit or a clear begins the next one."""

    item_id: str | None = None
    has_audio: bool = False
    has_speech: bool = False
    is_started: bool = False  # speech_started was told, and no speech_stopped since
    was_started: bool = False  # speech_started was told for this item
    speech_start: int | None = None  # where its speech begins, in the session's samples
    num_units: int = 0
    input_s: float = 0.0  # of sound that was appended, by its own rate
    overlap_samples: int = 0  # speech while a response was in progress
    hints: list[str] = field(default_factory=list)  # what the client says was said

    @property
    def transcript(self) -> str:
        return " ".join(self.hints)
