"""What the judge is asked. The scales are those of the pinned protocol; the words are ours, so a score names them."""

from collections.abc import Sequence

PROMPTS = "antiphon-1"

TEMPORAL = """You judge live commentary of a video. The pictures are frames of a short stretch of it, in order.
Task given to the commentator: {question}
What the commentator said during this stretch: {sentence}

Judge whether the words fit what can be seen in these frames, now, not earlier or later.
temporal_score: 3 they fit exactly, 2 mostly, 1 partly, 0 not at all.
is_relevant: 1 if the words are about the task, 0 if they are greetings, filler, or about something else.
Answer with nothing but JSON: {{"temporal_score": 0-3, "is_relevant": 0 or 1}}"""

CONTENT = """You judge live commentary of a video by its content, whatever its timing.
Task given to the commentator: {question}
Everything the commentator said: {text}
{references}

Judge how completely and correctly it does the task. Wrong statements cost as much as missing ones.
content_score: from 0.00 (nothing right) to 3.00 (complete and right), two decimals.
Answer with nothing but JSON: {{"content_score": 0.00-3.00}}"""

REMINDER = """A listener asked an assistant to watch a video and to speak up at the right moment.
The listener's request: {question}
The event happened {time_s:g} seconds into the video. What the assistant said within {window_s:g} seconds of it: {text}

Judge whether these words tell the listener that the event has happened, as requested.
Answer with nothing but JSON: {{"score": 1 if they do, else 0}}"""

POST_EVENT = """A listener asked an assistant to watch a video and to tell something once an event is over.
The listener's request: {question}
It was due {time_s:g} seconds into the video. What the assistant said within {window_s:g} seconds of it: {text}
{references}

Judge whether these words give what was asked for.
Answer with nothing but JSON: {{"score": 1 if they do, else 0}}"""

CORRECTION = """A listener says something about a video that may be wrong, and an assistant that watches along answers.
The listener's statement: {question}
Everything the assistant said: {text}
{references}

Judge whether the assistant corrects the statement so that it agrees with the truth.
Answer with nothing but JSON: {{"score": 1 if it does, else 0}}"""


def references(answers: Sequence[str], title: str) -> str:
    """The reference answers as lines of a prompt; nothing where there are none."""
    return "\n".join(f"{title}: {answer}" for answer in answers)
