from pathlib import Path

from antiphon.evals.datasets.subtitles import read_subtitles


def test_words_stay_and_numbers_times_and_tags_go(tmp_path: Path) -> None:
    path = tmp_path / "v.srt"
    path.write_text(
        "\ufeff1\n00:00:01,000 --> 00:00:02,000\n<i>Hello</i>\n42\n\n2\n00:00:03.5 --> 00:00:04.0\n{\\an8}Bye <3\n"
    )
    assert read_subtitles(path) == "Hello\n42\nBye <3"


def test_a_video_without_subtitles_has_none(tmp_path: Path) -> None:
    assert read_subtitles(tmp_path / "none.srt") == ""
