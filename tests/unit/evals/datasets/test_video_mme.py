import json
from pathlib import Path
from typing import Any

import pytest

from antiphon.bench.bench_request import BenchRequest
from antiphon.core.errors import ConfigError, MediaError
from antiphon.evals.datasets.video_mme import VideoMmeOptions, plain_choices, video_mme_items

MINI = Path(__file__).parents[3] / "data" / "evals" / "video_mme"


def options(**fields: Any) -> VideoMmeOptions:
    return VideoMmeOptions(
        **{"table": MINI / "test.parquet", "video_folder": MINI / "data", "is_inline": True} | fields
    )


def kinds(request: BenchRequest) -> list[str]:
    parts = request.messages[0]["content"]
    assert isinstance(parts, list)
    return [part["type"] for part in parts]


def table(folder: Path, **fields: object) -> Path:
    row = {"videoID": "v", "question_id": "1-1", "question": "?", "options": ["x", "y"], "answer": "A"} | fields
    path = folder / "table.jsonl"
    path.write_text(json.dumps(row) + "\n")
    return path


def test_questions_of_one_duration_are_chosen() -> None:
    assert [item.truth.item_id for item in video_mme_items(options())] == ["001-1", "002-1", "003-1"]
    (item,) = video_mme_items(options(duration="long"))
    assert (item.truth.gold, item.truth.groups["task type"]) == ("C", "Event")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, ["image_url"] * 3 + ["text"]),
        ({"max_frames": 2}, ["image_url"] * 2 + ["text"]),
        ({"pack_mode": "minicpm-interleave"}, ["image_url", "input_audio"] * 3 + ["text"]),
        ({"pack_mode": "video_url"}, ["video_url", "text"]),
    ],
)
def test_a_video_is_sent_as_its_pack_says(fields: dict[str, Any], expected: list[str]) -> None:
    assert kinds(video_mme_items(options(**fields))[0].make_request()) == expected


def test_choices_get_letters_and_subtitles_go_first() -> None:
    text = video_mme_items(options(subtitle_folder=MINI / "subtitle"))[0].make_request().speech_text
    lines = text.split("\n")
    assert lines[1:3] == ["A bar moves.", "A tone sounds."]
    assert lines[-6:-1] == ["What moves in the picture?", "A. A bar", "B. A cat", "C. A car", "D. Nothing"]


def test_labels_are_taken_off_only_if_all_choices_have_the_right_ones() -> None:
    assert plain_choices(["A. x", "B. y"]) == ["x", "y"]
    assert plain_choices(["(A) x", "B. y"]) == ["(A) x", "B. y"]
    assert plain_choices(["A. x", "C. y"]) == ["A. x", "C. y"]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"question": ""}, "needs question"),
        ({"options": "x"}, "needs options"),
        ({"options": list("abcde")}, "has 5 options"),
        ({"answer": "C"}, "answer 'C' is none of AB"),
        ({"videoID": "../v"}, "is not a file's name"),
    ],
)
def test_a_row_that_is_not_as_it_should_be_is_refused(tmp_path: Path, fields: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        video_mme_items(options(table=table(tmp_path, **fields)))


def test_options_out_of_range_are_refused(tmp_path: Path) -> None:
    for fields, words in (
        ({"pack_mode": "gif"}, "--pack-mode"),
        ({"duration": "tiny"}, "--duration"),
        ({"max_frames": 97}, "takes 1 to 96"),
        ({"max_frames": 8, "pack_mode": "video_url"}, "sends the whole file"),
    ):
        with pytest.raises(ConfigError, match=words):
            options(**fields)
    with pytest.raises(ConfigError, match="no question of duration short"):
        video_mme_items(options(table=table(tmp_path), duration="short"))


def test_a_missing_video_costs_its_own_item_only(tmp_path: Path) -> None:
    (item,) = video_mme_items(options(table=table(tmp_path)))
    with pytest.raises(MediaError, match=r"v\.mp4"):
        item.make_request()
