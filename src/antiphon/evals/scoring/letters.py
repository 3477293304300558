"""Whether an answer chooses the right letter."""

from collections.abc import Callable

from antiphon.core.errors import ConfigError
from antiphon.evals.items import Output
from antiphon.evals.metrics import LETTERS
from antiphon.evals.scorers.protocols import ScorerName
from antiphon.evals.scoring.scored import Marks


class LetterPart:
    """An answer from which no letter can be told is wrong. *rules* says by which rules letters are read."""

    name = LETTERS

    def __init__(self, rules: str, extract: Callable[[str], str]) -> None:
        self._rules = rules
        self._extract = extract

    @property
    def scorer(self) -> ScorerName:
        return ScorerName(self._rules, "1")

    def score(self, output: Output) -> Marks:
        if not output.truth.gold:
            raise ConfigError("it has no gold, the letter of the right choice")
        letter = self._extract(output.text)
        return Marks(
            {"accuracy": float(letter == output.truth.gold)},
            {"gold": output.truth.gold, "letter": letter, "answer": output.text},
        )
