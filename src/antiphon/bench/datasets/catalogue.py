"""The data sets by name, and the requests that each level of a run gets from them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from antiphon.bench.bench_request import BenchRequest
from antiphon.bench.datasets.choosing import choose
from antiphon.bench.datasets.daily_omni import DailyOmniOptions, read_daily_omni
from antiphon.bench.datasets.json_lines import JsonLinesOptions, read_json_lines
from antiphon.bench.datasets.random_mm import RandomMediaOptions, make_random_mm
from antiphon.bench.datasets.random_text import RandomOptions, make_random
from antiphon.bench.datasets.seed_tts import SeedTtsOptions, read_seed_tts

DATASETS = ("random", "random-mm", "seed-tts", "daily-omni", "jsonl")


@dataclass(frozen=True, kw_only=True)
class RandomMediaSet:
    """`random-mm`: text and media are drawn apart."""

    text: RandomOptions
    media: RandomMediaOptions


DataSetOptions = RandomOptions | RandomMediaSet | SeedTtsOptions | DailyOmniOptions | JsonLinesOptions


def open_dataset(
    options: DataSetOptions, *, seed: int, is_shuffled: bool, is_repeated: bool
) -> Callable[[int, int], Sequence[BenchRequest]]:
    """A function from a number of requests and a level's place in the run to the requests.

    Made-up requests differ from level to level; rows of a file are the same for every level but in another order if
    *is_shuffled*.
    """

    def generator(place: int) -> np.random.Generator:
        return np.random.default_rng((seed, place, 1))

    if isinstance(options, RandomOptions):
        return lambda count, place: make_random(count, options, generator(place))
    if isinstance(options, RandomMediaSet):
        return lambda count, place: make_random_mm(count, options.text, options.media, generator(place))
    if isinstance(options, SeedTtsOptions):
        rows = read_seed_tts(options)
    elif isinstance(options, DailyOmniOptions):
        rows = read_daily_omni(options)
    else:
        rows = read_json_lines(options)
    return lambda count, place: choose(rows, count, generator(place), is_shuffled=is_shuffled, is_repeated=is_repeated)
