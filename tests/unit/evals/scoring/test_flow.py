from pathlib import Path

import numpy as np
import pytest
import soundfile

from antiphon.core.errors import MediaError
from antiphon.evals.items import Output, Truth
from antiphon.evals.scoring.flow import FlowPart

PART = FlowPart(0.1)


def output(folder: Path, arrivals: tuple[tuple[float, int], ...]) -> Output:
    samples = 0.2 * np.sin(np.arange(16_000) / 8)
    samples[4_000] += 0.6
    soundfile.write(folder / "a.wav", samples, 8_000)
    return Output(truth=Truth(item_id="a"), sound=folder / "a.wav", arrivals=arrivals)


def test_a_planted_stall_and_click_are_found_with_their_places(tmp_path: Path) -> None:
    marks = PART.score(output(tmp_path, ((0.5, 8_000), (0.6, 0), (1.9, 8_000))))
    assert marks.values["underrun_s"] == pytest.approx(0.4)
    assert (marks.values["num_stalls"], marks.values["is_continuous"]) == (1.0, 0.0)
    assert marks.details["stalls_s"] == [[1.0, 0.4]]
    assert marks.details["clicks_s"] == [0.5]
    assert (marks.values["ttfp_ms"], marks.values["audio_rtf"]) == (500.0, pytest.approx(0.95))


def test_without_arrivals_only_the_samples_are_looked_at(tmp_path: Path) -> None:
    values = PART.score(output(tmp_path, ())).values
    assert values["num_clicks"] == 1.0
    assert not {"underrun_s", "is_continuous", "num_border_clicks", "ttfp_ms"} & set(values)


def test_arrivals_that_do_not_fit_the_file_and_no_sound_are_refused(tmp_path: Path) -> None:
    with pytest.raises(MediaError, match="tell of 9 samples"):
        PART.score(output(tmp_path, ((0.0, 9),)))
    with pytest.raises(MediaError, match="no sound"):
        PART.score(Output(truth=Truth(item_id="a")))
