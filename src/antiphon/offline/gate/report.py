"""What a run of gates leaves behind: lines for a terminal, a JSON document, and a table in a Markdown page."""

import platform
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from antiphon import __version__
from antiphon.config.optimizations import Exactness
from antiphon.core.errors import ConfigError
from antiphon.offline.gate.subject import Subject
from antiphon.offline.gate.verdict import Check, GateResult, Verdict

_CLASSES = {
    Exactness.LOSSLESS: "lossless",
    Exactness.ROUNDING: "rounding",
    Exactness.DISTRIBUTION: "distribution",
    Exactness.BOUNDED: "bounded",
}


def describe_subject(subject: Subject, name: str) -> dict[str, object]:
    """On what the gates were run."""
    device = subject.device
    return {
        "model": name,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else f"CPU ({platform.machine()})",
        "dtype": str(subject.model.thinker.llm.lm_head.weight.dtype).removeprefix("torch."),
        "draws": subject.num_draws,
        "torch": torch.__version__,
        "antiphon": __version__,
    }


def render_line(result: GateResult) -> str:
    """One switch for a terminal: the verdict, then a line for each check."""
    settings = f"{_word(result.plain)} → {_word(result.fast)}"
    head = (
        f"{result.verdict.value:<10}{result.switch:<22}{_CLASSES[result.exactness]:<14}{settings:<22}"
        f"{result.duration_s:6.1f} s"
    )
    return "\n".join([head, *(f"          {line}" for line in _details(result))])


def render_summary(results: Sequence[GateResult]) -> str:
    counts = {verdict: sum(result.verdict is verdict for result in results) for verdict in Verdict}
    return f"{counts[Verdict.PASS]} passed, {counts[Verdict.FAIL]} failed, {counts[Verdict.NOT_SHOWN]} not shown here"


def render_json(results: Sequence[GateResult], subject: dict[str, object]) -> dict[str, object]:
    return {"subject": subject, "gates": [_document(result) for result in results]}


def write_markdown(results: Sequence[GateResult], subject: dict[str, object], path: Path, section: str) -> None:
    """Put the table into *path*, in the place of an earlier one of the same *section*; a new page is only that.

    Raises:
        ConfigError: the page cannot be read or written.
    """
    begin, end = f"<!-- gate {section} -->", f"<!-- end of gate {section} -->"
    block = "\n".join([begin, *_markdown(results, subject), end])
    try:
        page = path.read_text(encoding="utf-8") if path.exists() else f"{begin}\n{end}\n"
        before, found_begin, rest = page.partition(begin)
        _, found_end, after = rest.partition(end)
        if not (found_begin and found_end):
            raise ConfigError(f"{path}: the table's place is not there; put the lines {begin} and {end} into it")
        path.write_text(before + block + after, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None


def _markdown(results: Sequence[GateResult], subject: dict[str, object]) -> Iterator[str]:
    yield ", ".join(f"{name} {value}" for name, value in subject.items()) + ": " + render_summary(results) + "."
    yield ""
    yield "| switch | class | settings | verdict | figures (limit) | fast path taken |"
    yield "|---|---|---|---|---|---|"
    for result in results:
        taken = [f"{name} {count}" for name, count in result.used.items()]
        taken += [f"fell back: {name} {count}" for name, count in result.fell_back.items()]
        figures = "; ".join(str(check) for check in result.checks) or result.reason
        yield (
            f"| `{result.switch}` | {_CLASSES[result.exactness]} | {_word(result.plain)} → {_word(result.fast)} "
            f"| {result.verdict.value} | {figures} | {'; '.join(taken) or '–'} |"
        )


def _details(result: GateResult) -> Iterator[str]:
    for check in result.checks:
        yield f"{'  ' if check.has_passed else '! '}{check}"
    for name, count in result.used.items():
        yield f"  taken: {name} {count}"
    for name, count in result.fell_back.items():
        yield f"  fell back: {name} {count}"
    if result.reason:
        yield f"  {result.reason}"


def _document(result: GateResult) -> dict[str, object]:
    return {
        "switch": result.switch,
        "class": _CLASSES[result.exactness],
        "plain": result.plain,
        "fast": result.fast,
        "verdict": result.verdict.name.lower(),
        "reason": result.reason,
        "checks": [_check(check) for check in result.checks],
        "used": dict(result.used),
        "fell_back": dict(result.fell_back),
        "duration_s": round(result.duration_s, 3),
    }


def _check(check: Check) -> dict[str, object]:
    is_finite = abs(check.value) != float("inf") and check.value == check.value
    return {
        "name": check.name,
        "value": check.value if is_finite else str(check.value),  # JSON has no infinity
        "limit": check.limit,
        "is_at_least": check.is_at_least,
        "has_passed": check.has_passed,
    }


def _word(value: object) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)
