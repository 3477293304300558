"""A recogniser that hears nothing: the transcripts were made elsewhere and lie beside the recordings."""

from collections.abc import Mapping

from antiphon.core.errors import ConfigError
from antiphon.evals.scorers.protocols import ScorerName

RECORDED = "recorded"


def recorded_scorer(names: Mapping[str, str]) -> ScorerName:
    """Name of who made the transcripts of these items (item id → what it says about itself).

    Raises:
        ConfigError: not all by the same.
    """
    makers = sorted(set(names.values()))
    if len(makers) > 1:
        raise ConfigError(f"the transcripts were made by different recognisers ({', '.join(makers)}): score them apart")
    return ScorerName(RECORDED, makers[0] if makers and makers[0] else "unnamed")
