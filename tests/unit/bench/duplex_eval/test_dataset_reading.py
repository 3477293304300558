"""Where samples come from: manifests, Parquet, the hub; and what is refused."""

import json
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from antiphon.bench.duplex_eval.dataset_reading import load_samples
from antiphon.bench.duplex_eval.splits import SPLITS, Task
from antiphon.core.errors import ConfigError

MINI = Path(__file__).parents[3] / "data" / "omni_duplex_eval"
ROW: dict[str, Any] = {"id": "a", "split": "RTD_OCR", "video": "a.mp4"}


def write(path: Path, *rows: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return path


def test_the_mini_data_set_is_read_with_its_media() -> None:
    samples = load_samples(str(MINI), SPLITS)
    assert [sample.sample_id for sample in samples] == ["ocr0", "omni0", "corr0", "event0"]
    assert all(isinstance(sample.video, Path) and sample.video.is_file() for sample in samples)
    event = samples[-1]
    assert (event.task, event.reminders_s, event.answers) == (Task.EVENT, (0.5, 200.0), ())
    assert samples[0].answers == ("The sign is white on black and moves to the right.", "A white bar moves right.")


def test_splits_limits_and_ids_narrow_the_choice(tmp_path) -> None:
    path = write(
        tmp_path / "all.jsonl", *({**ROW, "id": str(index)} for index in range(5)), {**ROW, "split": "RTD_Omni"}
    )
    assert len(load_samples(str(path), SPLITS)) == 6
    assert [sample.sample_id for sample in load_samples(str(path), ["RTD_OCR"], limit=2)] == ["0", "1"]
    assert [sample.sample_id for sample in load_samples(str(path), SPLITS, ids=["3", "a"])] == ["3", "a"]
    with pytest.raises(ConfigError, match="--ids 9: no such sample"):
        load_samples(str(path), SPLITS, ids=["9"])


def test_a_manifest_named_after_a_split_needs_no_column(tmp_path) -> None:
    write(tmp_path / "PR_correction.jsonl", {"id": "x", "video": "x.mp4"})
    (sample,) = load_samples(str(tmp_path), SPLITS)
    assert sample.split == "PR_correction"
    assert sample.video == tmp_path / "x.mp4"


def test_parquet_files_hold_their_media_and_are_named_after_their_split(tmp_path) -> None:
    row = {
        "id": "p", "question_text": "q", "answer1": "a", "reminder1": 3.0, "video_duration": 4.0,
        "video": {"bytes": b"mp4", "path": "p.mp4"}, "question_audio": {"bytes": b"wav", "path": "p.wav"},
    }  # fmt: skip
    (tmp_path / "data").mkdir()
    for split in ("PR_event_reminder", "RTD_OCR"):
        pyarrow.parquet.write_table(
            pyarrow.Table.from_pylist([row]), tmp_path / "data" / f"{split}-00000-of-00001.parquet"
        )  # fmt: skip
    (sample,) = load_samples(str(tmp_path), ["PR_event_reminder"])
    assert (sample.video, sample.question_audio, sample.reminders_s) == (b"mp4", b"wav", (3.0,))


def test_a_hub_id_is_fetched_for_the_chosen_splits_only(tmp_path) -> None:
    asked: list[Any] = []

    def download(hub_id: str, patterns: list[str]) -> Path:
        asked.append((hub_id, patterns))
        write(tmp_path / "hub" / "samples.jsonl", ROW)
        return tmp_path / "hub"

    assert len(load_samples("some/set", ["RTD_OCR"], download=download)) == 1  # type: ignore[arg-type]
    assert asked == [("some/set", ["*RTD_OCR[-/.]*"])]


def test_media_may_lie_elsewhere(tmp_path) -> None:
    path = write(tmp_path / "m.jsonl", ROW)
    (sample,) = load_samples(str(path), SPLITS, media_root=tmp_path / "media")
    assert sample.video == tmp_path / "media" / "a.mp4"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{**ROW, "split": "RTD_new"}], "a row's split is 'RTD_new'"),
        ([ROW, ROW], "sample a of RTD_OCR is there twice"),
        ([{**ROW, "id": "../a"}], "cannot be the name of a file"),
        ([{"id": "a", "split": "RTD_OCR"}], "has no video"),
        ([{**ROW, "split": "PR_correction"}], "no sample of RTD_OCR is in it"),
    ],
)
def test_what_is_not_this_data_set_is_refused(tmp_path, rows, message) -> None:
    with pytest.raises(ConfigError, match=message):
        load_samples(str(write(tmp_path / "x.jsonl", *rows)), ["RTD_OCR"])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [("x.json", "{", "not JSON"), ("x.json", '{"a": 1}', "must be a list"), ("x.parquet", "no", "not a Parquet file")],
)
def test_files_that_cannot_be_read_are_named(tmp_path, name, content, message) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(ConfigError, match=f"{name}: {message}"):
        load_samples(str(tmp_path / name), SPLITS)


def test_a_place_that_is_nowhere_is_refused() -> None:
    with pytest.raises(ConfigError, match="no such folder or file"):
        load_samples("/nowhere/at/all", SPLITS)
