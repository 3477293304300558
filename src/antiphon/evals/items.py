"""One item of a data set: what is asked, what is known to be right, and what came of it."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from antiphon.bench.bench_request import BenchRequest


@dataclass(frozen=True, kw_only=True)
class Truth:
    """What an answer is held against. What a data set does not know stays empty.

    Attributes:
        target: words that were to be spoken.
        language: of them, en or zh.
        reference: recording of the voice that was to speak.
        gold: letter of the right choice.
        groups: by which scores are broken down, as task type → "AV Event Alignment".
    """

    item_id: str
    target: str = ""
    language: str = "en"
    reference: Path | None = None
    gold: str = ""
    groups: Mapping[str, str] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """Equal for two items exactly if the same is held against their answers."""
        voice = ""
        if self.reference is not None:
            try:
                voice = hashlib.sha256(self.reference.read_bytes()).hexdigest()
            except OSError:
                voice = "missing"
        facts = [self.item_id, self.target, self.language, voice, self.gold, sorted(self.groups.items())]
        return hashlib.sha256(json.dumps(facts, ensure_ascii=False).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class EvalItem:
    """An item that can be asked. The request is made when it is its turn: media are large."""

    truth: Truth
    make_request: Callable[[], BenchRequest]


@dataclass(frozen=True, kw_only=True)
class Output:
    """What came of an item, made now or earlier.

    Attributes:
        text: of the answer.
        sound: file of its speech.
        arrivals: for each piece of the speech, when it came (seconds after the request was sent) and its samples.
        e2e_s: until the answer's end.
        error: why there is no answer.
        transcript: what a recogniser that ran elsewhere heard, if `recogniser` says which.
    """

    truth: Truth
    text: str = ""
    sound: Path | None = None
    arrivals: tuple[tuple[float, int], ...] = ()
    e2e_s: float | None = None
    error: str = ""
    transcript: str | None = None
    recogniser: str = ""
