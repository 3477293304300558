"""Gives all outputs their marks."""

from collections.abc import Callable, Sequence

from antiphon.core.errors import AntiphonError
from antiphon.evals.items import Output
from antiphon.evals.scoring.scored import Marks, Part, Scored


def score_outputs(outputs: Sequence[Output], parts: Sequence[Part], tell: Callable[[Scored], None]) -> list[Scored]:
    """One Scored for each output, in order. What cannot be scored is told as its item's problem, and costs no other."""
    found = []
    for output in outputs:
        found.append(_score(output, parts))
        tell(found[-1])
    return found


def _score(output: Output, parts: Sequence[Part]) -> Scored:
    values: dict[str, float] = {}
    details: dict[str, object] = {}
    problems: dict[str, str] = {}
    for part in parts if not output.error else ():
        try:
            marks: Marks = part.score(output)
        except AntiphonError as error:
            problems[part.name] = str(error)
            continue
        values |= marks.values
        details |= marks.details
    return Scored(
        item_id=output.truth.item_id,
        truth_digest=output.truth.digest,
        groups=output.truth.groups,
        marks=Marks(values, details),
        error=output.error,
        problems=problems,
    )
