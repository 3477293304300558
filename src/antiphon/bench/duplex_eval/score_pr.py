"""Scores a proactive sample: was the right thing said when it was due?"""

from collections.abc import Sequence

from antiphon.bench.duplex_eval import judge_prompts as prompts
from antiphon.bench.duplex_eval.judge_client import Judge
from antiphon.bench.duplex_eval.judge_replies import read_number
from antiphon.bench.duplex_eval.samples import Sample
from antiphon.bench.duplex_eval.sentences import Sentence
from antiphon.bench.duplex_eval.splits import Task


def said_in_time(sentences: Sequence[Sentence], due_s: float, window_s: float) -> str:
    """What was begun from the moment it was due until the window's end."""
    return " ".join(item.text for item in sentences if due_s <= item.start_s <= due_s + window_s)


async def score_pr(
    sample: Sample, sentences: Sequence[Sentence], judge: Judge, *, window_s: float
) -> dict[str, object]:
    """`pr` of a score file. Silence scores 0 without a judge. Raises JudgeError."""
    events: list[dict[str, object]] = []
    if sample.task is Task.CORRECTION or not sample.reminders_s:
        text = " ".join(sentence.text for sentence in sentences)
        truth = prompts.references(sample.answers, "The truth")
        prompt = prompts.CORRECTION.format(question=sample.question, text=text, references=truth)
        events.append({"reminder_s": None, **await _judge(judge, prompt, text)})
    else:
        template = prompts.POST_EVENT if sample.task is Task.POST_EVENT else prompts.REMINDER
        known = prompts.references(sample.answers, "A reference answer")
        for due_s in sample.reminders_s:
            text = said_in_time(sentences, due_s, window_s)
            prompt = template.format(
                question=sample.question, time_s=due_s, window_s=window_s, text=text, references=known
            )  # fmt: skip
            events.append({"reminder_s": due_s, **await _judge(judge, prompt, text)})
    scores = [event["score"] for event in events]
    return {"events": events, "all_success": int(all(score == 1 for score in scores)), "total_score": scores.count(1)}


async def _judge(judge: Judge, prompt: str, text: str) -> dict[str, object]:
    if not text:
        return {"text": "", "score": 0, "reply": None}
    reply = await judge.ask(prompt)
    score, _ = read_number(reply, "score", 0, 1)
    return {"text": text, "score": int(score >= 0.5), "reply": reply}
