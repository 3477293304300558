from antiphon.core.errors import MediaError
from antiphon.evals.items import Output, Truth
from antiphon.evals.scorers.protocols import ScorerName
from antiphon.evals.scoring.score import score_outputs
from antiphon.evals.scoring.scored import Marks, Scored


class Length:
    name, scorer = "length", ScorerName("length", "1")

    def score(self, output: Output) -> Marks:
        return Marks({"length": float(len(output.text))}, {"text": output.text})


class Deaf:
    name, scorer = "deaf", ScorerName("deaf", "1")

    def score(self, output: Output) -> Marks:
        raise MediaError("nothing is heard")


def test_a_part_that_cannot_score_costs_no_other_part() -> None:
    told: list[Scored] = []
    (found,) = score_outputs([Output(truth=Truth(item_id="a"), text="four")], [Deaf(), Length()], told.append)
    assert found.marks == Marks({"length": 4.0}, {"text": "four"})
    assert found.problems == {"deaf": "nothing is heard"}
    assert told == [found]


def test_a_failed_item_is_not_scored() -> None:
    (found,) = score_outputs([Output(truth=Truth(item_id="a"), error="timed out")], [Length()], lambda item: None)
    assert (found.error, dict(found.marks.values)) == ("timed out", {})
