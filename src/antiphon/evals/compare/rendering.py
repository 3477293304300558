"""A comparison as Markdown and as a JSON document."""

from collections.abc import Mapping

from antiphon.evals.compare.comparison import Comparison, Difference, Verdict
from antiphon.evals.report.markdown import interval_text, render_table


def render_comparison(found: Comparison) -> str:
    """What the command prints."""
    counts = f"{found.num_only_first} only in the first, {found.num_only_second} only in the second"
    lines = [
        f"# {found.first.kind}: {found.first.path} → {found.second.path}",
        "",
        f"{found.num_shared} items in both, {counts}.",
        "",
    ]
    if differing := differing_facts(found.first.run, found.second.run):
        lines += ["What differed in how the outputs were made:", ""]
        lines += [f"- {name}: {before} → {after}" for name, before, after in differing]
        lines.append("")
    heads = ("", "first", "second", "change", f"{100 * found.confidence:g} % interval", "p", "verdict")
    lines += render_table(heads, [_row(item) for item in found.differences])
    lines += ["", f"Scored by {_scorers(found)}."]
    return "\n".join(lines) + "\n"


def differing_facts(first: Mapping[str, object], second: Mapping[str, object]) -> list[tuple[str, str, str]]:
    """What two runs say differently of themselves: its name, and both values ("–" for none). Counters are left out."""
    found: list[tuple[str, str, str]] = []
    for key in [*first, *(key for key in second if key not in first)]:
        before, after = first.get(key), second.get(key)
        if isinstance(before, dict) and isinstance(after, dict):
            if key != "counters":
                found += [(f"{key}.{name}", old, new) for name, old, new in differing_facts(before, after)]
        elif before != after:
            old, new = ("–" if value is None else str(value) for value in (before, after))
            found.append((key, old, new))
    return found


def comparison_document(found: Comparison) -> dict[str, object]:
    """The same for machines."""
    return {
        "antiphon_eval_comparison": 1,
        "kind": found.first.kind,
        "dataset": found.first.dataset,
        "first": str(found.first.path),
        "second": str(found.second.path),
        "differing": {
            name: [before, after] for name, before, after in differing_facts(found.first.run, found.second.run)
        },
        "scorers": {name: dict(scorer) for name, scorer in found.first.scorers.items()},
        "items": {
            "shared": found.num_shared,
            "only_first": found.num_only_first,
            "only_second": found.num_only_second,
        },
        "confidence": found.confidence,
        "metrics": {
            item.metric.name: {
                "count": item.count,
                "first": item.first,
                "second": item.second,
                "change": item.change,
                "interval": None if item.interval is None else [item.interval.low, item.interval.high],
                "p_value": item.p_value,
                "better": item.metric.better.value,
                "verdict": item.verdict.value,
            }
            for item in found.differences
        },
    }


def _row(item: Difference) -> tuple[str, ...]:
    metric = item.metric
    return (
        metric.title,
        metric.text(item.first),
        metric.text(item.second),
        ("+" if item.change > 0 else "") + metric.text(item.change),
        interval_text(metric, item.interval),
        f"{item.p_value:.3f}",
        _verdict_text(item.verdict),
    )


def _verdict_text(verdict: Verdict) -> str:
    return f"**{verdict.value}**" if verdict in (Verdict.BETTER, Verdict.WORSE) else verdict.value


def _scorers(found: Comparison) -> str:
    names = [f"{scorer.get('name')} {scorer.get('version')}" for scorer in found.first.scorers.values()]
    return ", ".join(names) or "nobody"
