"""`random`: prompts of common English words, each one token in the usual vocabularies, drawn from a seed."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from antiphon.bench.bench_request import BenchRequest, text_part, user_message
from antiphon.core.errors import ConfigError

_COMMON = (
    "the of and to in is was for that on as with by he at from his it an are which be or had not this were but have "
    "one first new also they their who her two been other when time there more about year people made over can city "
    "state world after part three where some she most life between up into work under through many only then second "
    "music war school water while house family country game number place often white small each use large air side "
    "left land level local area home day found known group system order long water north south east west"
)
WORDS = tuple(_COMMON.split())


@dataclass(frozen=True, kw_only=True)
class RandomOptions:
    """Lengths in tokens. `range_ratio` r draws each length evenly from (1 − r) to (1 + r) times its value."""

    input_len_tokens: int = 1024
    output_len_tokens: int = 128
    prefix_len_tokens: int = 0  # words that all prompts begin with, to try a prefix cache
    range_ratio: float = 0.0

    def __post_init__(self) -> None:
        if self.input_len_tokens < 1 or self.output_len_tokens < 1 or self.prefix_len_tokens < 0:
            raise ConfigError("--random-input-len and --random-output-len start at 1, --random-prefix-len at 0")
        if not 0 <= self.range_ratio < 1:
            raise ConfigError(f"--random-range-ratio is {self.range_ratio:g}; it lies in [0, 1)")


@dataclass(frozen=True)
class RandomText:
    """One drawn prompt and how many tokens it and its answer have."""

    text: str
    num_words: int
    output_len_tokens: int


def draw_texts(count: int, options: RandomOptions, generator: np.random.Generator) -> list[RandomText]:
    """*count* prompts; the same seed gives the same prompts."""
    prefix = _words(options.prefix_len_tokens, generator)
    drawn: list[RandomText] = []
    for _ in range(count):
        input_len = _length(options.input_len_tokens, options.range_ratio, generator)
        output_len = _length(options.output_len_tokens, options.range_ratio, generator)
        words = [*prefix, *_words(input_len, generator)]
        drawn.append(RandomText(" ".join(words), len(words), output_len))
    return drawn


def make_random(count: int, options: RandomOptions, generator: np.random.Generator) -> list[BenchRequest]:
    """*count* requests of text."""
    return [
        BenchRequest(
            messages=(user_message(text_part(drawn.text)),),
            speech_text=drawn.text,
            prompt_len_tokens=drawn.num_words,
            max_tokens=drawn.output_len_tokens,
        )
        for drawn in draw_texts(count, options, generator)
    ]


def _words(count: int, generator: np.random.Generator) -> Sequence[str]:
    return [WORDS[place] for place in generator.integers(len(WORDS), size=count)]


def _length(middle: int, ratio: float, generator: np.random.Generator) -> int:
    if not ratio:
        return middle
    return max(1, int(generator.integers(round(middle * (1 - ratio)), round(middle * (1 + ratio)) + 1)))
