"""Windows, aggregates and rules of the two families, with a judge that always says the same."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from antiphon.bench.duplex_eval.judge_client import JudgeSettings, Part, VideoMode
from antiphon.bench.duplex_eval.samples import Sample
from antiphon.bench.duplex_eval.score_pr import said_in_time, score_pr
from antiphon.bench.duplex_eval.score_rtd import (
    SentenceScore,
    content_times,
    score_rtd,
    temporal_summary,
    window_of,
    window_times,
)
from antiphon.bench.duplex_eval.sentences import Sentence

VIDEO = Path(__file__).parents[3] / "data/omni_duplex_eval/media/RTD_OCR/ocr0.mp4"


class FixedJudge:
    """Gives its replies in turn, and keeps what it was asked."""

    def __init__(self, *replies: str, video_mode: VideoMode = VideoMode.FRAMES) -> None:
        self.settings = JudgeSettings(base_url="http://judge", model="j", video_mode=video_mode)
        self.replies = list(replies)
        self.asked: list[tuple[str, Sequence[Part]]] = []

    async def ask(self, prompt: str, media: Sequence[Part] = ()) -> str:
        self.asked.append((prompt, media))
        return self.replies.pop(0)


def sample(split: str, **fields: Any) -> Sample:
    plain = {"question": "Q", "answers": ("A",), "reminders_s": (), "duration_s": 3.0, "question_audio": None}
    return Sample(sample_id="a", split=split, video=VIDEO, **{**plain, **fields})


def describe(judge: FixedJudge, *sentences: Sentence) -> Any:
    return asyncio.run(score_rtd(sample("RTD_OCR"), sentences, VIDEO, 3.0, judge))  # type: ignore[arg-type]


def remind(judge: FixedJudge, subject: Sample, *sentences: Sentence) -> Any:
    return asyncio.run(score_pr(subject, sentences, judge, window_s=10.0))  # type: ignore[arg-type]


def test_a_sentence_is_about_what_was_seen_two_seconds_before() -> None:
    assert window_of(Sentence("x", 5.0, 9.0)) == (3.0, 7.0)
    assert window_of(Sentence("x", 1.0, 1.2)) == (0.0, 1.5)


def test_frames_of_a_window_include_its_ends_and_a_single_one_is_in_the_middle() -> None:
    assert window_times((2.0, 4.0), 2.0) == [2.0, pytest.approx(2 + 2 / 3), pytest.approx(2 + 4 / 3), 4.0]
    assert window_times((2.0, 2.5), 2.0) == [2.25]


def test_a_whole_video_is_shown_in_at_most_sixteen_frames() -> None:
    assert content_times(10.0) == [0.0, 3.0, 6.0, 9.0]
    assert len(content_times(300.0)) == 16
    assert content_times(300.0)[-1] == 297.0
    assert content_times(1.0) == [0.0]


def test_only_relevant_sentences_without_an_error_count() -> None:
    scores = [
        SentenceScore(sentence=Sentence("a", 1.0, 3.0), window_s=(0, 1), temporal=3.0, is_relevant=True),
        SentenceScore(sentence=Sentence("b", 4.0, 5.0), window_s=(0, 1), temporal=2.0, is_relevant=True),
        SentenceScore(sentence=Sentence("c", 6.0, 7.0), window_s=(0, 1), temporal=1.0),
        SentenceScore(sentence=Sentence("d", 9.0, 9.0), window_s=(0, 1), temporal=0.0, error="late"),
    ]
    found = temporal_summary(scores)
    assert found["avg_score"] == 2.5
    assert found["distribution"] == {"2": 1, "3": 1}
    assert (found["first_relevant_s"], found["relevant_s"], found["irrelevant_s"]) == (1.0, 3.0, 1.0)
    assert (found["relevant_ratio"], found["num_excluded"]) == (0.75, 1)
    assert temporal_summary([])["avg_score"] == 0.0


def test_a_description_is_judged_sentence_by_sentence_and_once_as_a_whole() -> None:
    judge = FixedJudge(
        '{"temporal_score": 3, "is_relevant": 1}', '{"temporal_score": 1, "is_relevant": 1}', '{"content_score": 2.456}'
    )
    found = describe(judge, Sentence("One.", 0.5, 1.0), Sentence("Two.", 2.5, 2.9), Sentence("Late.", 6.0, 7.0))
    assert found["temporal"]["avg_score"] == 2.0
    assert found["temporal"]["num_excluded"] == 1
    assert found["temporal"]["sentences"][2]["error"] == "said after the video's end"
    assert found["content"]["score"] == 2.46
    assert "One. Two. Late." in judge.asked[-1][0]
    assert "A reference answer: A" in judge.asked[-1][0]
    assert [part["type"] for part in judge.asked[0][1]] == ["image_url"] * 2


def test_a_judge_that_may_read_files_gets_the_whole_video() -> None:
    judge = FixedJudge(
        '{"temporal_score": 3, "is_relevant": 1}', '{"content_score": 1}', video_mode=VideoMode.VIDEO_URL
    )
    describe(judge, Sentence("One.", 0.5, 1.0))
    assert judge.asked[-1][1] == [{"type": "video_url", "video_url": {"url": VIDEO.resolve().as_uri()}}]


def test_a_reply_that_cannot_be_read_excludes_the_sentence_and_scores_no_content() -> None:
    found = describe(FixedJudge("hm", "no idea"), Sentence("One.", 0.5, 1.0))
    assert found["temporal"]["num_excluded"] == 1
    assert found["content"]["score"] == 0.0


def test_silence_asks_no_judge() -> None:
    judge = FixedJudge()
    assert describe(judge)["content"]["score"] == 0.0
    found = remind(judge, sample("PR_event_reminder", reminders_s=(5.0,)), Sentence("Too early.", 1.0, 2.0))
    assert found == {
        "events": [{"reminder_s": 5.0, "text": "", "score": 0, "reply": None}],
        "all_success": 0,
        "total_score": 0,
    }
    assert judge.asked == []


def test_a_reminder_may_begin_until_the_end_of_its_window() -> None:
    sentences = [Sentence(name, at_s, at_s + 30) for name, at_s in (("a", 4.9), ("b", 5.0), ("c", 15.0), ("d", 15.1))]
    assert said_in_time(sentences, 5.0, 10.0) == "b c"


def test_every_reminder_must_succeed() -> None:
    subject = sample("PR_event_reminder", reminders_s=(1.0, 20.0))
    said = (Sentence("Now.", 2.0, 3.0), Sentence("Stopped.", 21.0, 22.0))
    found = remind(FixedJudge('{"score": 1}', '{"score": 0}'), subject, *said)
    assert (found["all_success"], found["total_score"]) == (0, 1)
    assert remind(FixedJudge('{"score": 1}', '{"score": 1}'), subject, *said)["all_success"] == 1


def test_a_correction_is_one_judgment_on_everything_said() -> None:
    judge = FixedJudge('{"score": 1}')
    found = remind(
        judge, sample("PR_correction", reminders_s=(1.0,)), Sentence("No,", 0.0, 1.0), Sentence("white.", 9.0, 9.0)
    )
    assert found["all_success"] == 1
    assert "No, white." in judge.asked[0][0]
    assert "The truth: A" in judge.asked[0][0]


def test_a_sample_without_reminder_times_is_judged_as_a_correction() -> None:
    judge = FixedJudge('{"score": 1}')
    remind(judge, sample("PR_post_event_reminder"), Sentence("Done.", 3.0, 4.0))
    assert "The truth: A" in judge.asked[0][0]
