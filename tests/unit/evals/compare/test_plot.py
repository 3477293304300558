from pathlib import Path

import pytest

from antiphon.core.errors import ConfigError
from antiphon.evals.compare.comparison import Comparison, compare
from antiphon.evals.compare.plot import draw_comparison
from antiphon.evals.compare.reading import ReadItem, ReadReport


def comparison(offset: float, count: int = 8) -> Comparison:
    first, second = (
        ReadReport(
            path=Path("r.json"),
            kind="wer",
            dataset="made",
            scorers={},
            run={},
            items={str(place): ReadItem("d", {"wer": place * slope + start}) for place in range(count)},
        )
        for slope, start in ((0.1, 0.0), (0.11, offset))
    )
    return compare(first, second)


@pytest.mark.parametrize("found", [comparison(0.1), comparison(0.0, count=1)])
def test_a_comparison_of_any_size_is_drawn(tmp_path: Path, found: Comparison) -> None:
    draw_comparison(found, tmp_path / "deep" / "c.svg")
    assert b"<svg" in (tmp_path / "deep" / "c.svg").read_bytes()


def test_an_unknown_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be written"):
        draw_comparison(comparison(0.1), tmp_path / "c.xyz")
