"""Daily-Omni: four-way questions about clips with sound. The reader is the load benchmark's."""

from collections import Counter
from collections.abc import Callable

from antiphon.bench.bench_request import BenchRequest
from antiphon.bench.datasets.daily_omni import DailyOmniOptions, Question, daily_omni_requests, read_questions
from antiphon.core.errors import ConfigError
from antiphon.evals.items import EvalItem, Truth

_LETTERS = "ABCD"


def daily_omni_items(options: DailyOmniOptions) -> list[EvalItem]:
    """All questions. The data set has no ids for them: a video's name and a count make one.

    Raises:
        ConfigError: the question file is missing or not as it should be.
    """
    items: list[EvalItem] = []
    counts: Counter[str] = Counter()
    for question in read_questions(options.question_file):
        counts[question.video_id] += 1
        item_id = f"{question.video_id}-{counts[question.video_id]}"
        gold = question.answer.strip().upper()
        if gold and gold not in _LETTERS:
            raise ConfigError(f"{options.question_file}: {item_id}: Answer {question.answer!r} is none of {_LETTERS}")
        groups = {
            "task type": question.task_type,
            "video category": question.video_category,
            "duration": question.video_duration,
        }
        truth = Truth(item_id=item_id, gold=gold, groups={name: value for name, value in groups.items() if value})
        items.append(EvalItem(truth, _request_maker(question, options)))
    return items


def _request_maker(question: Question, options: DailyOmniOptions) -> Callable[[], BenchRequest]:
    def make() -> BenchRequest:
        (request,) = daily_omni_requests([question], options)
        return request

    return make
