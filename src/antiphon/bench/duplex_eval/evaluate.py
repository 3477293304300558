"""Has a judge score the responses of a run. A response whose clock is not the media's is refused unless allowed."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import aiohttp

from antiphon.bench.duplex_eval.artifacts import meta_path, read_json, read_object, response_path, write_json
from antiphon.bench.duplex_eval.generate import MEDIA_CLOCK
from antiphon.bench.duplex_eval.judge_client import Judge, JudgeError, JudgeSettings
from antiphon.bench.duplex_eval.judge_prompts import PROMPTS
from antiphon.bench.duplex_eval.media import keep_media, video_duration_s
from antiphon.bench.duplex_eval.samples import Sample
from antiphon.bench.duplex_eval.score_pr import score_pr
from antiphon.bench.duplex_eval.score_rtd import score_rtd
from antiphon.bench.duplex_eval.sentences import Sentence, read_sentences
from antiphon.bench.duplex_eval.splits import PROTOCOL_PIN, Family
from antiphon.bench.load import Clock, run_load
from antiphon.core.errors import ConfigError, MediaError


@dataclass(frozen=True, kw_only=True)
class EvaluateSettings:
    """`window_s`: how long after it is due a reminder may begin."""

    response_root: Path
    score_root: Path
    judge: JudgeSettings
    window_s: float = 10.0
    allows_invalid_clock: bool = False
    num_workers: int = 1
    overwrite: bool = False

    def __post_init__(self) -> None:
        if not self.window_s > 0:
            raise ConfigError(f"--window-size is {self.window_s:g}; it must be above 0")
        if self.num_workers < 1:
            raise ConfigError(f"--eval-workers is {self.num_workers}; give at least 1")


@dataclass(frozen=True)
class Evaluated:
    """What became of one sample: scored, skipped because it was, or failed with `error`."""

    sample: Sample
    error: str = ""
    was_skipped: bool = False


@dataclass(frozen=True)
class _Response:
    sample: Sample
    sentences: Sequence[Sentence]
    meta: Mapping[str, object]


async def evaluate(
    samples: Sequence[Sample],
    settings: EvaluateSettings,
    tell: Callable[[Evaluated], None],
    *,
    clock: Clock = perf_counter,
) -> list[Evaluated]:
    """Score every sample that has a response and no score yet.

    Raises:
        ConfigError: there are no responses, or one's clock is invalid; nothing has been judged then.
    """
    responses = [response for response in (_read(sample, settings) for sample in samples) if response is not None]
    if not responses:
        raise ConfigError(f"--response-root {settings.response_root}: holds no response of the chosen samples")
    _check_clocks(responses, settings)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        judge = Judge(http, settings.judge)

        async def run(response: _Response, _: float) -> Evaluated:
            found = await _score(response, settings, judge)
            tell(found)
            return found

        return await run_load(
            responses, [0.0] * len(responses), run, max_concurrency=settings.num_workers, clock=clock
        )  # fmt: skip


def _read(sample: Sample, settings: EvaluateSettings) -> _Response | None:
    root = settings.response_root
    path = response_path(root, sample.split, sample.sample_id)
    if not path.exists():
        return None
    meta = read_object(meta_path(root, sample.split, sample.sample_id))
    return _Response(sample, read_sentences(read_json(path), str(path)), meta)


def _check_clocks(responses: Sequence[_Response], settings: EvaluateSettings) -> None:
    """Times that are not the media's say nothing about when a model spoke."""
    invalid = [item.sample for item in responses if item.meta.get("clock") != MEDIA_CLOCK]
    if invalid and not settings.allows_invalid_clock:
        first = invalid[0]
        raise ConfigError(
            f"{response_path(settings.response_root, first.split, first.sample_id)}: its clock is not the media's "
            f"({len(invalid)} of {len(responses)} responses); generate it with --pace realtime, "
            "or accept its times with --allow-invalid-clock"
        )


async def _score(response: _Response, settings: EvaluateSettings, judge: Judge) -> Evaluated:
    sample = response.sample
    path = response_path(settings.score_root, sample.split, sample.sample_id)
    if path.exists() and not settings.overwrite:
        return Evaluated(sample, was_skipped=True)
    try:
        if sample.family is Family.RTD:
            video = await asyncio.to_thread(keep_media, sample, settings.response_root)
            duration_s = await asyncio.to_thread(video_duration_s, video)
            scores = await score_rtd(sample, response.sentences, video, duration_s, judge)
        else:
            scores = {"pr": await score_pr(sample, response.sentences, judge, window_s=settings.window_s)}
    except (JudgeError, MediaError) as error:
        return Evaluated(sample, str(error))
    write_json(
        path,
        {
            "id": sample.sample_id,
            "split": sample.split,
            "family": sample.family.value,
            "task_type": sample.task.value if sample.task else sample.split.removeprefix("RTD_"),
            "protocol_pin": PROTOCOL_PIN,
            "response_meta": dict(response.meta),
            "judge_model": settings.judge.model,
            "judge_video_mode": settings.judge.video_mode.value,
            "judge_prompts": PROMPTS,
            **scores,
        },
    )
    return Evaluated(sample)
