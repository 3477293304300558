from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from antiphon.cli.answering import CodeProgress, show_answer, summarise
from antiphon.core.errors import ConfigError, MediaError
from antiphon.core.outputs import FinishReason, RequestMetrics
from antiphon.pipeline.events import AudioChunk, ChatEvent, Finished, TextDelta


def finished(num_codes: int = 2, reason: FinishReason = FinishReason.STOP) -> Finished:
    return Finished(
        text="ab",
        token_ids=(1, 2, 3),
        finish_reason=reason,
        codec_ids=(7,) * num_codes,
        speech_finish_reason=reason if num_codes else None,
        metrics=RequestMetrics(
            num_prompt_tokens=1,
            num_text_tokens=3,
            num_codec_frames=num_codes,
            audio_duration_s=0.04 * num_codes,
            time_to_first_text_s=0.0,
            text_finished_s=0.01,
            time_to_first_audio_s=0.02,
            total_s=0.04,
        ),
    )


def answer(*events: ChatEvent | Exception) -> Iterator[ChatEvent]:
    for event in events:
        if isinstance(event, Exception):
            raise event
        yield event


CHUNK = AudioChunk(np.zeros(960, np.float32), 24_000)


def test_text_goes_to_stdout_as_it_comes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    events = answer(TextDelta("a"), TextDelta("b"), CHUNK, CHUNK, finished())
    assert show_answer(events, tmp_path / "o.wav", CodeProgress(is_shown=True)) == finished()
    assert capsys.readouterr() == ("ab\n", "")
    assert (tmp_path / "o.wav").stat().st_size == 44 + 2 * 1920


def test_a_failure_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(MediaError, match="midway"):
        show_answer(answer(CHUNK, MediaError("midway")), tmp_path / "o.wav", CodeProgress(is_shown=False))
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"o.wav: cannot be written"):
        show_answer(answer(CHUNK), tmp_path / "file" / "o.wav", CodeProgress(is_shown=False))


def test_the_summary_says_where_the_speech_is_and_how_long(capsys: pytest.CaptureFixture[str]) -> None:
    summarise(finished(), Path("o.wav"))
    assert capsys.readouterr() == ("", "o.wav: 0.08 s of speech, 2 codec frames, RTF 0.50\n")


def test_the_summary_says_what_was_cut_off_or_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    summarise(finished(reason=FinishReason.LENGTH), Path("o.wav"))
    assert capsys.readouterr().err.splitlines() == [
        "the text was cut off after 3 tokens (--max-tokens)",
        "o.wav: 0.08 s of speech (cut off by a limit), 2 codec frames, RTF 0.50",
    ]
    summarise(finished(num_codes=0), Path("o.wav"))
    assert "nothing to speak; no WAV was written" in capsys.readouterr().err
