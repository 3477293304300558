"""Scores a real-time description: each sentence by its moment, the whole by its content."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from antiphon.bench.duplex_eval import judge_prompts as prompts
from antiphon.bench.duplex_eval.judge_client import Judge, Part, VideoMode, image_part, video_part
from antiphon.bench.duplex_eval.judge_replies import read_number
from antiphon.bench.duplex_eval.media import frames_at
from antiphon.bench.duplex_eval.samples import Sample
from antiphon.bench.duplex_eval.sentences import Sentence

_BEFORE_S = 2.0  # a speaker is that far behind what is seen
_MIN_WINDOW_S = 0.5
_CONTENT_FRAME_S, _MAX_CONTENT_FRAMES = 3.0, 16
MAX_TEMPORAL, MAX_CONTENT = 3.0, 3.0


@dataclass(frozen=True, kw_only=True)
class SentenceScore:
    """`error` says why a sentence does not count; empty for those that do."""

    sentence: Sentence
    window_s: tuple[float, float]
    temporal: float = 0.0
    is_relevant: bool = False
    error: str = ""


def window_of(sentence: Sentence) -> tuple[float, float]:
    """The stretch of the video that a sentence can be about."""
    return max(0.0, sentence.start_s - _BEFORE_S), max(sentence.start_s + _MIN_WINDOW_S, sentence.end_s - _BEFORE_S)


def window_times(window_s: tuple[float, float], fps: float) -> list[float]:
    """Moments of the frames that show a window, its ends included; a single one lies in the middle."""
    start_s, end_s = window_s
    count = max(1, int((end_s - start_s) * fps))
    if count == 1:
        return [(start_s + end_s) / 2]
    return [start_s + (end_s - start_s) * index / (count - 1) for index in range(count)]


def content_times(duration_s: float) -> list[float]:
    """One frame for each three seconds, thinned evenly to sixteen."""
    times = [_CONTENT_FRAME_S * index for index in range(max(1, int(duration_s / _CONTENT_FRAME_S) + 1))]
    times = [time_s for time_s in times if time_s < duration_s] or [0.0]
    if len(times) <= _MAX_CONTENT_FRAMES:
        return times
    return [times[round(index * (len(times) - 1) / (_MAX_CONTENT_FRAMES - 1))] for index in range(_MAX_CONTENT_FRAMES)]


async def score_rtd(
    sample: Sample, sentences: Sequence[Sentence], video: Path, duration_s: float, judge: Judge
) -> dict[str, object]:
    """`temporal` and `content` of a score file. Raises JudgeError, MediaError."""
    scores = [await _score_sentence(sample, sentence, video, duration_s, judge) for sentence in sentences]
    text = " ".join(sentence.text for sentence in sentences)
    return {
        "temporal": temporal_summary(scores),
        "content": await _score_content(sample, text, video, duration_s, judge),
    }


def temporal_summary(scores: Sequence[SentenceScore]) -> dict[str, object]:
    """The mean over the relevant sentences without an error, and how the others fell."""
    counted = [score for score in scores if not score.error]
    relevant = [score for score in counted if score.is_relevant]
    relevant_s, other_s = (
        sum(score.sentence.end_s - score.sentence.start_s for score in group)
        for group in (relevant, [score for score in counted if not score.is_relevant])
    )
    return {
        "avg_score": round(fmean(score.temporal for score in relevant), 4) if relevant else 0.0,
        "distribution": dict(sorted(Counter(f"{score.temporal:g}" for score in relevant).items())),
        "first_relevant_s": min((score.sentence.start_s for score in relevant), default=None),
        "relevant_s": round(relevant_s, 3),
        "irrelevant_s": round(other_s, 3),
        "relevant_ratio": round(relevant_s / (relevant_s + other_s), 4) if relevant_s + other_s else None,
        "num_sentences": len(scores),
        "num_relevant": len(relevant),
        "num_excluded": len(scores) - len(counted),
        "sentences": [
            {
                "sentence": score.sentence.text,
                "start": score.sentence.start_s,
                "end": score.sentence.end_s,
                "window": list(score.window_s),
                "temporal_score": score.temporal,
                "is_relevant": int(score.is_relevant),
                "error": score.error or None,
            }
            for score in scores
        ],
    }


async def _score_sentence(
    sample: Sample, sentence: Sentence, video: Path, duration_s: float, judge: Judge
) -> SentenceScore:
    start_s, end_s = window_of(sentence)
    if start_s >= duration_s:
        return SentenceScore(sentence=sentence, window_s=(start_s, end_s), error="said after the video's end")
    window_s = (start_s, min(end_s, duration_s))
    frames = await asyncio.to_thread(frames_at, video, window_times(window_s, judge.settings.fps))
    prompt = prompts.TEMPORAL.format(question=sample.question, sentence=sentence.text)
    reply = await judge.ask(prompt, [image_part(frame) for frame in frames])
    temporal, was_read = read_number(reply, "temporal_score", 0, MAX_TEMPORAL)
    relevant, _ = read_number(reply, "is_relevant", 0, 1)
    return SentenceScore(
        sentence=sentence,
        window_s=window_s,
        temporal=temporal,
        is_relevant=relevant >= 0.5,
        error="" if was_read else "the judge's reply cannot be read",
    )


async def _score_content(sample: Sample, text: str, video: Path, duration_s: float, judge: Judge) -> dict[str, object]:
    if not text:
        return {"score": 0.0, "reply": None}
    media: list[Part]
    if judge.settings.video_mode is VideoMode.VIDEO_URL:
        media = [video_part(video)]
    else:
        frames = await asyncio.to_thread(frames_at, video, content_times(duration_s))
        media = [image_part(frame) for frame in frames]
    known = prompts.references(sample.answers, "A reference answer")
    reply = await judge.ask(prompts.CONTENT.format(question=sample.question, text=text, references=known), media)
    score, _ = read_number(reply, "content_score", 0, MAX_CONTENT)
    return {"score": round(score, 2), "reply": reply}
