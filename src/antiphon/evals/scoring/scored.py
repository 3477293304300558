"""What scoring gives an item, and the protocol of its parts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from antiphon.evals.items import Output
from antiphon.evals.scorers.protocols import ScorerName


@dataclass(frozen=True)
class Marks:
    """`values` are of the metrics by name, `details` say what they rest on."""

    values: Mapping[str, float]
    details: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Scored:
    """One item with all its marks.

    Attributes:
        truth_digest: equal for two runs whose answers were held against the same.
        error: why there was no answer.
        problems: for each part that could not be scored, why.
    """

    item_id: str
    truth_digest: str
    groups: Mapping[str, str]
    marks: Marks
    error: str = ""
    problems: Mapping[str, str] = field(default_factory=dict)


class Part(Protocol):
    """Scores one side of an output, as its words or its flow."""

    @property
    def name(self) -> str:
        """One of the scorers' names in `metrics`."""

    @property
    def scorer(self) -> ScorerName:
        """Who scores."""

    def score(self, output: Output) -> Marks:
        """Marks of an output that has an answer. Raises AntiphonError if it cannot be scored, with the reason."""
