"""Sampling parameters of one stage: which fields exist, what they may be, and what each stage takes by default."""

import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from difflib import get_close_matches
from numbers import Integral, Real

from antiphon.core.errors import SamplingError

STAGE_NAMES = ("thinker", "talker", "code2wav")

MIN_TEMPERATURE = 0.01  # below it (0 excepted) the logits overflow before they decide anything
MAX_TEMPERATURE = 100.0
MAX_PENALTY = 100.0
MAX_NEW_TOKENS = 1_000_000
MAX_SEED = 2**63 - 1
MAX_STOP_STRINGS = 16
MAX_STOP_CHARS = 256
MAX_STOP_IDS = 128


@dataclass(frozen=True, kw_only=True)
class SamplingParams:
    """How one stage draws its tokens. The defaults are neutral: an instance is a complete set, nothing is merged in.

    Every field is honoured by the Thinker; what the Talker and Code2Wav have no use for is refused by `check_stage`.

    Raises:
        SamplingError: a value of the wrong type or out of range; the message names the field.
    """

    temperature: float = 1.0  # 0 is greedy
    top_p: float = 1.0
    top_k: int = -1  # −1 or 0: off
    min_p: float = 0.0
    repetition_penalty: float = 1.0  # thinker: presence over the generated ids; talker: frequency over 16 codes
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    max_tokens: int = 2048
    min_tokens: int = 0  # no stop token before this many tokens
    seed: int | None = None  # None: a fresh one for each request
    stop: tuple[str, ...] = ()  # the text ends before the first of these
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False  # only max_tokens, stop and stop_token_ids end the text

    def __post_init__(self) -> None:
        self._real("temperature", 0.0, MAX_TEMPERATURE)
        if 0.0 < self.temperature < MIN_TEMPERATURE:
            raise SamplingError(f"temperature is {self.temperature!r}; use 0 for greedy or at least {MIN_TEMPERATURE}")
        self._real("top_p", 0.0, 1.0, open_low=True)
        self._whole("top_k", -1, MAX_NEW_TOKENS)
        self._real("min_p", 0.0, 1.0)
        self._real("repetition_penalty", 0.0, MAX_PENALTY, open_low=True)
        self._real("presence_penalty", -2.0, 2.0)
        self._real("frequency_penalty", -2.0, 2.0)
        self._whole("max_tokens", 1, MAX_NEW_TOKENS)
        self._whole("min_tokens", 0, self.max_tokens)
        if self.seed is not None:
            self._whole("seed", 0, MAX_SEED)
        self._stop_strings()
        self._stop_ids()
        if not isinstance(self.ignore_eos, bool):
            raise SamplingError(f"ignore_eos is {self.ignore_eos!r}; it must be true or false")

    @classmethod
    def from_mapping(cls, values: Mapping[str, object]) -> "SamplingParams":
        """Build from parsed JSON or YAML. An unknown field is refused with the nearest known one."""
        known = [field.name for field in fields(cls)]
        for name in values:
            if name not in known:
                near = get_close_matches(str(name), known, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
                raise SamplingError(f"unknown sampling field {name!r}; {hint}")
        return cls(**values)  # type: ignore[arg-type]  # __post_init__ checks every value at run time

    def _real(self, name: str, low: float, high: float, *, open_low: bool = False) -> None:
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, Real):
            raise SamplingError(f"{name} is {value!r}; it must be a number")
        number = float(value)
        inside = (low < number if open_low else low <= number) and number <= high
        if not math.isfinite(number) or not inside:
            raise SamplingError(
                f"{name} is {value!r}; it must be {'above' if open_low else 'from'} {low:g} to {high:g}"
            )
        object.__setattr__(self, name, number)

    def _whole(self, name: str, low: int, high: int) -> None:
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise SamplingError(f"{name} is {value!r}; it must be a whole number")
        number = int(value)
        if not low <= number <= high:
            raise SamplingError(f"{name} is {number}; it must be from {low} to {high}")
        object.__setattr__(self, name, number)

    def _stop_strings(self) -> None:
        value: object = self.stop
        texts = (value,) if isinstance(value, str) else value
        if not isinstance(texts, (list, tuple)) or not all(isinstance(text, str) for text in texts):
            raise SamplingError(f"stop is {_short(value)}; it must be a string or a list of strings")
        if len(texts) > MAX_STOP_STRINGS:
            raise SamplingError(f"stop has {len(texts)} strings; at most {MAX_STOP_STRINGS} are accepted")
        if not all(1 <= len(text) <= MAX_STOP_CHARS for text in texts):
            raise SamplingError(f"stop: every string must have 1 to {MAX_STOP_CHARS} characters")
        object.__setattr__(self, "stop", tuple(texts))

    def _stop_ids(self) -> None:
        ids: object = self.stop_token_ids
        if not isinstance(ids, (list, tuple)):
            raise SamplingError(f"stop_token_ids is {_short(ids)}; it must be a list of token ids")
        if len(ids) > MAX_STOP_IDS:
            raise SamplingError(f"stop_token_ids has {len(ids)} ids; at most {MAX_STOP_IDS} are accepted")
        for token_id in ids:
            if isinstance(token_id, bool) or not isinstance(token_id, Integral) or token_id < 0:
                raise SamplingError(f"stop_token_ids holds {token_id!r}; token ids are whole numbers from 0")
        object.__setattr__(self, "stop_token_ids", tuple(int(token_id) for token_id in ids))


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


# What the shipped deploy files give each stage, not the checkpoint's own chat() values (0.7 / 0.8 / 100 / 1.02): the
# offline interface and the server answer alike. 2048 codes (82 s) is the Talker's own limit beneath their 4096.
DEFAULT_STAGE_PARAMS: tuple[SamplingParams, SamplingParams, SamplingParams] = (
    SamplingParams(temperature=0.0, max_tokens=2048, seed=42),
    SamplingParams(
        temperature=0.8, top_p=0.85, top_k=25, repetition_penalty=1.05, min_tokens=50, max_tokens=2048, seed=42
    ),
    SamplingParams(temperature=0.0, max_tokens=65_536, seed=42),
)

# Fields without a meaning in a stage. `temperature` of code2wav may be 0 or 1, both of which say "nothing is drawn".
_UNUSED: dict[str, tuple[str, ...]] = {
    "thinker": (),
    "talker": ("min_p", "presence_penalty", "frequency_penalty", "stop", "stop_token_ids", "ignore_eos"),
    "code2wav": (
        *("top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty"),
        *("min_tokens", "stop", "stop_token_ids", "ignore_eos"),
    ),
}


def check_stage(stage: str, params: SamplingParams) -> None:
    """Refuse a field that *stage* would silently ignore, unless it has its neutral value."""
    for field in fields(SamplingParams):
        if field.name in _UNUSED[stage]:
            assert field.default is not MISSING
            value = getattr(params, field.name)
            is_neutral = value == field.default or (field.name == "top_k" and value == 0)
            if not is_neutral:
                raise SamplingError(f"{field.name} is {value!r}, which the {stage} stage does not use; leave it out")
    if stage == "code2wav" and params.temperature not in (0.0, 1.0):
        raise SamplingError(
            f"temperature is {params.temperature!r}, which the code2wav stage does not use; leave it out"
        )
