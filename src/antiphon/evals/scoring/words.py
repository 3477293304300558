"""Word errors of what a recogniser hears, against the words that were to be said."""

from collections.abc import Sequence

from antiphon.core.errors import ConfigError, MediaError
from antiphon.evals.items import Output
from antiphon.evals.metrics import WORDS
from antiphon.evals.scorers.protocols import Recogniser, ScorerName
from antiphon.evals.scorers.recorded import recorded_scorer
from antiphon.evals.scoring.cache import ScoreCache
from antiphon.evals.scoring.scored import Marks
from antiphon.evals.speech.sound import read_sound
from antiphon.evals.text.words import WordRules, word_errors


class WordPart:
    """With *recogniser* None the transcripts of the outputs count, whoever made them."""

    name = WORDS

    def __init__(
        self,
        recogniser: Recogniser | None,
        cache: ScoreCache,
        outputs: Sequence[Output],
        *,
        spells_numbers: bool = False,
    ) -> None:
        self._recogniser = recogniser
        self._cache = cache
        self._spells_numbers = spells_numbers
        if recogniser is None:
            made_by = {item.truth.item_id: item.recogniser for item in outputs if item.transcript is not None}
            if not made_by:
                raise ConfigError("no output has a transcript; choose a --recogniser that listens")
            self._heard_by = recorded_scorer(made_by)
        else:
            self._heard_by = recogniser.scorer
        languages = sorted({output.truth.language for output in outputs if output.truth.target})
        if not languages:
            raise ConfigError("no output has a target, the words that were to be said")
        self._rules = {name: WordRules(name, spells_numbers and name == "en") for name in languages}

    @property
    def scorer(self) -> ScorerName:
        """The recogniser, with the rules by which words are compared."""
        rules = " ".join(rules.name for rules in self._rules.values())
        return ScorerName(self._heard_by.name, self._heard_by.version, {**self._heard_by.settings, "words": rules})

    def score(self, output: Output) -> Marks:
        truth = output.truth
        if not truth.target:
            raise ConfigError("it has no target, the words that were to be said")
        heard = self._hear(output)
        found = word_errors(truth.target, heard, self._rules[truth.language])
        return Marks(
            {"wer": found.rate},
            {
                "target": truth.target,
                "heard": heard,
                "num_units": found.num_units,
                "num_substituted": found.num_substituted,
                "num_deleted": found.num_deleted,
                "num_inserted": found.num_inserted,
            },
        )

    def _hear(self, output: Output) -> str:
        if self._recogniser is None:
            if output.transcript is None:
                raise ConfigError("it has no transcript")
            return output.transcript
        if output.sound is None:
            raise MediaError("it has no sound")
        recogniser, sound, language = self._recogniser, output.sound, output.truth.language
        return self._cache.get(
            str, recogniser.scorer, language, [sound], lambda: recogniser.transcribe(read_sound(sound), language)
        )
