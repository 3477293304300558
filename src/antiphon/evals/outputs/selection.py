"""Which of a folder's outputs are scored."""

from collections.abc import Sequence
from dataclasses import replace

from antiphon.core.errors import ConfigError
from antiphon.evals.items import EvalItem, Output


def outputs_of(items: Sequence[EvalItem], outputs: Sequence[Output]) -> list[Output]:
    """The outputs of *items*, in their order, held against what the data set says now.

    Raises:
        ConfigError: one of them has no output.
    """
    by_id = {output.truth.item_id: output for output in outputs}
    if missing := [item.truth.item_id for item in items if item.truth.item_id not in by_id]:
        raise ConfigError(f"{len(missing)} items have no output, as {missing[0]!r}")
    return [replace(by_id[item.truth.item_id], truth=item.truth) for item in items]
