"""The report of one evaluation as a JSON document: the file that comparisons read."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from antiphon.core.errors import ConfigError
from antiphon.evals.report.reference_keys import reference_keys
from antiphon.evals.report.summary import corpus_rate, count_where, figures_of, groups_of
from antiphon.evals.scorers.protocols import ScorerName
from antiphon.evals.scoring.scored import Scored

FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Report:
    """One evaluation.

    Attributes:
        kind: the command's name.
        dataset: name of the data set; "" for outputs that came from elsewhere.
        run: what made the outputs, as far as is known: server, model, settings.
        seed: of the bootstrap.
    """

    kind: str
    dataset: str
    scorers: Mapping[str, ScorerName]
    items: Sequence[Scored]
    run: Mapping[str, object] = field(default_factory=dict)
    made_with: Mapping[str, object] = field(default_factory=dict)
    seed: int = 0

    @property
    def num_failed(self) -> int:
        return count_where(self.items, lambda item: bool(item.error))

    @property
    def num_unscored(self) -> int:
        """Items with an answer of which some part could not be scored."""
        return count_where(self.items, lambda item: bool(item.problems))


def report_document(report: Report) -> dict[str, object]:
    """The document, with the reference's keys at its root."""
    figures, groups = figures_of(report.items, report.seed), groups_of(report.items, report.seed)
    rate = corpus_rate(report.items)
    return {
        "antiphon_eval": FORMAT,
        "kind": report.kind,
        "dataset": report.dataset,
        "scorers": {name: scorer.as_json() for name, scorer in report.scorers.items()},
        "counts": {"items": len(report.items), "failed": report.num_failed, "not_scored": report.num_unscored},
        "metrics": {name: figure.as_json() for name, figure in figures.items()},
        **({} if rate is None else {"wer_corpus": rate}),
        "groups": {
            kind: {group: {name: figure.as_json() for name, figure in row.items()} for group, row in rows.items()}
            for kind, rows in groups.items()
        },
        **reference_keys(report.kind, report.items),
        "bootstrap": {"confidence": 0.95, "seed": report.seed},
        "run": dict(report.run),
        "made_with": dict(report.made_with),
        "items": [_item(item) for item in report.items],
    }


def write_text(path: Path, text: str) -> None:
    """Write *text* to *path*, making its folder. Raises ConfigError if that cannot be."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written ({error.strerror})") from None


def render_json(document: Mapping[str, object]) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _item(item: Scored) -> dict[str, object]:
    row: dict[str, object] = {
        "id": item.item_id,
        "truth": item.truth_digest,
        "groups": dict(item.groups),
        "values": dict(item.marks.values),
        "details": dict(item.marks.details),
        "error": item.error,
        "problems": dict(item.problems),
    }
    return {key: value for key, value in row.items() if value not in ("", {})}
