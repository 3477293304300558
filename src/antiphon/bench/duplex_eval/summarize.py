"""Sums scores up over families and tasks, with how far the means could lie from the truth."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from antiphon.bench.duplex_eval.artifacts import read_object
from antiphon.bench.duplex_eval.splits import PROTOCOL_PIN, Family
from antiphon.core.errors import ConfigError
from antiphon.statistics.resampling import bootstrap_interval

Score = Mapping[str, object]
Measure = Callable[[Score], float]


def read_scores(root: Path) -> list[Score]:
    """All score files below *root*.

    Raises:
        ConfigError: there are none, one is not a score file, or they follow another protocol or mix judges.
    """
    scores = []
    for path in sorted(root.glob("*/*.json")):
        score = read_object(path)
        if score.get("family") not in (Family.RTD.value, Family.PR.value):
            raise ConfigError(f"{path}: not a score file")
        if score.get("protocol_pin") != PROTOCOL_PIN:
            raise ConfigError(f"{path}: was made under another protocol ({score.get('protocol_pin')})")
        scores.append(score)
    if not scores:
        raise ConfigError(f"--score-root {root}: holds no scores")
    for key in ("judge_model", "judge_prompts", "judge_video_mode"):
        if len(found := {str(score.get(key)) for score in scores}) > 1:
            raise ConfigError(
                f"--score-root {root}: scores differ in {key} ({', '.join(sorted(found))}); do not mix them"
            )
    return scores


def summarize(scores: Sequence[Score]) -> dict[str, object]:
    """The summary, of the families that have scores."""
    rtd, pr = ([score for score in scores if score["family"] == family.value] for family in Family)
    first = scores[0]
    document: dict[str, object] = {
        "protocol_pin": PROTOCOL_PIN,
        "samples": len(scores),
        "judge_model": first.get("judge_model"),
        "judge_prompts": first.get("judge_prompts"),
        "num_invalid_clock": sum(_clock(score) != "media" for score in scores),
    }
    if rtd:
        figures = {"mean_content_score": content_score, "mean_avg_temporal_score": temporal_score}
        document["rtd"] = _family(rtd, figures)
    if pr:
        document["pr"] = _family(pr, {"mean_all_success": success})
    return document


def content_score(score: Score) -> float:
    return _number(score, "content", "score")


def temporal_score(score: Score) -> float:
    return _number(score, "temporal", "avg_score")


def success(score: Score) -> float:
    return _number(score, "pr", "all_success")


def render_summary(document: Mapping[str, object]) -> str:
    """A table: families and tasks, each with its means and their 95 % intervals."""
    lines = [f"{document['samples']} samples, judged by {document['judge_model']} ({document['judge_prompts']})"]
    if document["num_invalid_clock"]:
        lines.append(f"! {document['num_invalid_clock']} responses have no valid clock: their times mean nothing")
    for family in ("rtd", "pr"):
        group = document.get(family)
        if not isinstance(group, dict):
            continue
        names = [name for name in group if name.startswith("mean_")]
        lines.append("\n" + f"{family:<30}{'samples':>8}" + "".join(f"{name:>34}" for name in names))
        for label, row in (("all", group), *group["by_task"].items()):
            lines.append(f"  {label:<28}{row['samples']:>8}" + "".join(f"{_cell(row, name):>34}" for name in names))
    return "\n".join(lines)


def _family(scores: Sequence[Score], measures: Mapping[str, Measure]) -> dict[str, object]:
    tasks = dict.fromkeys(str(score["task_type"]) for score in scores)
    return {
        **_group(scores, measures),
        "by_task": {
            task: _group([score for score in scores if score["task_type"] == task], measures) for task in tasks
        },
    }  # fmt: skip


def _group(scores: Sequence[Score], measures: Mapping[str, Measure]) -> dict[str, object]:
    group: dict[str, object] = {"samples": len(scores)}
    for name, measure in measures.items():
        values = [measure(score) for score in scores]
        interval = bootstrap_interval(values)
        group[name] = round(fmean(values), 4)
        group[f"{name}_interval".removeprefix("mean_")] = (
            None if interval is None else [round(interval.low, 4), round(interval.high, 4)]
        )
    return group


def _cell(row: Mapping[str, object], name: str) -> str:
    interval = row.get(f"{name}_interval".removeprefix("mean_"))
    span = f" ({interval[0]:.3f} … {interval[1]:.3f})" if isinstance(interval, list) else ""
    return f"{row[name]:.4f}{span}"


def _number(score: Score, part: str, name: str) -> float:
    found = score.get(part)
    value = found.get(name) if isinstance(found, dict) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ConfigError(f"score of {score.get('split')}/{score.get('id')}: {part}.{name} is missing")
    return float(value)


def _clock(score: Score) -> object:
    meta = score.get("response_meta")
    return meta.get("clock") if isinstance(meta, dict) else None
