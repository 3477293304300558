"""Compares drawn text and codes: identical ids, ends and rows, or equal up to rounding."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.nn.functional import linear

from antiphon.offline.gate.limits import max_logit_difference, min_agreement
from antiphon.offline.gate.talker_runs import Codes
from antiphon.offline.gate.thinker_runs import Text, greedy_texts
from antiphon.offline.gate.verdict import Check


def same_texts(plain: Mapping[str, Text], fast: Mapping[str, Text]) -> list[Check]:
    """No id, no end and no row may differ."""
    pairs = [(text, fast[name]) for name, text in plain.items()]
    return [
        _none("sequences with other ids", sum(first.ids != second.ids for first, second in pairs)),
        _none("sequences with another end", sum(first.reason != second.reason for first, second in pairs)),
        _none("difference of a row", max(rows_apart(first.rows, second.rows) for first, second in pairs)),
        Check(name="ids compared", value=sum(len(first.ids) for first, _ in pairs), limit=50, is_at_least=True),
    ]


def same_codes(plain: Mapping[str, Codes], fast: Mapping[str, Codes]) -> list[Check]:
    """No codec id and no end may differ, so that every speech is as long as it was."""
    pairs = [(codes, fast[name]) for name, codes in plain.items()]
    return [
        _none("speeches with other codes", sum(first.ids != second.ids for first, second in pairs)),
        _none("speeches with another end", sum(first.reason != second.reason for first, second in pairs)),
        Check(name="codes compared", value=sum(len(first.ids) for first, _ in pairs), limit=100, is_at_least=True),
    ]


def close_texts(plain: dict[str, Text], fast: dict[str, Text], head: Tensor, dtype: torch.dtype) -> list[Check]:
    """Scores of the same inputs are near each other, and the best token stays the best.

    Behind the first id that differs the inputs are not the same any more, so a sequence is compared up to there.

    Args:
        head: the output head's weight, [vocab, hidden].
    """
    apart, num_same, num_all = 0.0, 0, 0
    found = greedy_texts(fast)
    for name, text in greedy_texts(plain).items():
        other = found[name]
        num_common = _common(text.ids, other.ids)
        for first, second in zip(text.rows[:num_common], other.rows[:num_common], strict=True):
            before, after = (linear(row.to(head.device), head.float()) for row in (first, second))
            apart = max(apart, float((before - after).abs().max()))
            num_same += int(before.argmax() == after.argmax())
            num_all += 1
    return [
        Check(name="largest difference of a score", value=apart, limit=max_logit_difference(dtype)),
        Check(
            name="share of equal best tokens",
            value=num_same / max(num_all, 1),
            limit=min_agreement(dtype),
            is_at_least=True,
        ),
        Check(name="rows compared", value=num_all, limit=10, is_at_least=True),
    ]


def agreeing_codes(plain: Mapping[str, Codes], fast: Mapping[str, Codes], dtype: torch.dtype) -> list[Check]:
    """Of greedy codes drawn behind the same codes, the share that agrees."""
    num_same = sum(_common(codes.ids, fast[name].ids) for name, codes in plain.items())
    num_diverged = sum(codes.ids != fast[name].ids for name, codes in plain.items())
    return [
        Check(
            name="share of equal best codes",
            value=num_same / max(num_same + num_diverged, 1),
            limit=min_agreement(dtype),
            is_at_least=True,
        )
    ]


def _none(name: str, value: float) -> Check:
    return Check(name=name, value=value, limit=0.0)


def _common(first: Sequence[int], second: Sequence[int]) -> int:
    """Ids before the first that differs."""
    for index, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return index
    return min(len(first), len(second))


def rows_apart(first: Sequence[Tensor], second: Sequence[Tensor]) -> float:
    if len(first) != len(second):
        return float("inf")
    return max((float((one - other).abs().max()) for one, other in zip(first, second, strict=True)), default=0.0)
