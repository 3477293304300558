"""Which splits a choice leaves."""

import pytest

from antiphon.bench.duplex_eval.splits import PR_TASKS, RTD_SPLITS, SPLITS, Family, chosen_splits, family_of
from antiphon.core.errors import ConfigError


def test_there_are_nine_tasks_in_two_families() -> None:
    assert len(SPLITS) == 9
    assert {family_of(split) for split in RTD_SPLITS} == {Family.RTD}
    assert {family_of(split) for split in PR_TASKS} == {Family.PR}


def test_split_and_family_narrow_the_choice() -> None:
    assert chosen_splits("all", "all") == SPLITS
    assert chosen_splits("all", "pr") == tuple(PR_TASKS)
    assert chosen_splits("RTD_OCR", "rtd") == ("RTD_OCR",)


@pytest.mark.parametrize(
    ("split", "family", "message"),
    [("RTD_ocr", "all", "--split"), ("all", "x", "--family"), ("RTD_OCR", "pr", "is not of --family pr")],
)
def test_a_wrong_or_empty_choice_is_refused(split, family, message) -> None:
    with pytest.raises(ConfigError, match=message):
        chosen_splits(split, family)
