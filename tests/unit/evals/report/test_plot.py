from pathlib import Path

import pytest
from eval_scores import report_of, scored

from antiphon.core.errors import ConfigError
from antiphon.evals.report.plot import draw_report

ITEMS = [
    scored(str(place), {"wer": place / 10, "accuracy": float(place % 2)}, groups={"kind": "ab"[place % 2]})
    for place in range(6)
]


@pytest.mark.parametrize("items", [ITEMS, ITEMS[:1], []])
def test_a_report_of_any_size_is_drawn(tmp_path: Path, items: list) -> None:
    draw_report(report_of(items), tmp_path / "deep" / "p.svg")
    assert b"<svg" in (tmp_path / "deep" / "p.svg").read_bytes()


def test_an_unknown_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written"):
        draw_report(report_of(ITEMS), tmp_path / "p.xyz")
