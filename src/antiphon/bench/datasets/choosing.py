"""Which rows of a data set are sent: shuffled or in order, repeated to the number asked for or not."""

from collections.abc import Sequence

import numpy as np

from antiphon.bench.bench_request import BenchRequest


def choose(
    rows: Sequence[BenchRequest], count: int, generator: np.random.Generator, *, is_shuffled: bool, is_repeated: bool
) -> list[BenchRequest]:
    """At most *count* rows. With *is_repeated* a short data set starts over until there are *count*."""
    order = generator.permutation(len(rows)) if is_shuffled else np.arange(len(rows))
    total = count if is_repeated else min(count, len(rows))
    return [rows[int(order[place % len(rows)])] for place in range(total)]
