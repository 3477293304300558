"""Reads reports back, as far as comparing needs."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from antiphon.core.errors import ConfigError
from antiphon.evals.report.document import FORMAT

Values = Mapping[str, float]


@dataclass(frozen=True)
class ReadItem:
    """One item of a report: what it was held against, and its values."""

    truth_digest: str
    values: Values


@dataclass(frozen=True, kw_only=True)
class ReadReport:
    """A report from a file. `scorers` are by part, each as its JSON."""

    path: Path
    kind: str
    dataset: str
    scorers: Mapping[str, Mapping[str, object]]
    run: Mapping[str, object]
    items: Mapping[str, ReadItem]


def read_report(path: Path) -> ReadReport:
    """The report in *path*. Raises ConfigError if it is none."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"{path}: not JSON ({error})") from None
    if not isinstance(document, dict) or document.get("antiphon_eval") != FORMAT:
        raise ConfigError(f"{path}: is no report of antiphon eval (format {FORMAT})")
    try:
        return ReadReport(
            path=path,
            kind=str(document["kind"]),
            dataset=str(document["dataset"]),
            scorers={str(name): dict(scorer) for name, scorer in document["scorers"].items()},
            run=dict(document["run"]),
            items={
                str(item["id"]): ReadItem(
                    str(item["truth"]), {str(name): float(value) for name, value in item.get("values", {}).items()}
                )
                for item in document["items"]
            },
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"{path}: the report is broken ({type(error).__name__}: {error})") from None
