import json
from pathlib import Path

import pytest

from antiphon.bench.datasets.daily_omni import DailyOmniOptions
from antiphon.core.errors import ConfigError
from antiphon.evals.datasets.daily_omni import daily_omni_items

MINI = Path(__file__).parents[3] / "data" / "evals" / "daily_omni"


def options(question_file: Path = MINI / "qa.json") -> DailyOmniOptions:
    return DailyOmniOptions(
        question_file=question_file, video_folder=MINI / "Videos", is_inline=True, pack_mode="minicpm-interleave"
    )


def test_each_question_has_an_id_a_letter_and_groups() -> None:
    items = daily_omni_items(options())
    assert [(item.truth.item_id, item.truth.gold) for item in items] == [
        ("clip1-1", "A"),
        ("clip1-2", "B"),
        ("clip2-1", "C"),
    ]
    assert items[1].truth.groups == {"task type": "Context", "video category": "Made", "duration": "30s"}


def test_media_are_read_when_it_is_an_items_turn() -> None:
    parts = daily_omni_items(options())[0].make_request().messages[-1]["content"]
    assert isinstance(parts, list)
    assert [part["type"] for part in parts] == ["image_url", "input_audio"] * 3 + ["text"]


def test_an_answer_that_is_no_letter_is_refused(tmp_path: Path) -> None:
    row = {"video_id": "v", "Question": "?", "Choice": ["A. x", "B. y"], "Answer": "first"}
    (tmp_path / "qa.json").write_text(json.dumps([row]))
    with pytest.raises(ConfigError, match="v-1: Answer 'first' is none of ABCD"):
        daily_omni_items(options(tmp_path / "qa.json"))
