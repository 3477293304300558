"""Seed-TTS: target texts spoken in a reference voice."""

from functools import partial

from antiphon.bench.datasets.seed_tts import SeedTtsOptions, Utterance, read_utterances, utterance_request
from antiphon.core.errors import ConfigError, MediaError
from antiphon.evals.items import EvalItem, Truth


def seed_tts_items(options: SeedTtsOptions) -> list[EvalItem]:
    """All utterances. Raises as `read_utterances` and for a doubled id; MediaError for a missing recording."""
    utterances = read_utterances(options)
    seen: set[str] = set()
    for utterance in utterances:
        if not utterance.utterance_id or utterance.utterance_id in seen:
            raise ConfigError(f"{options.root / options.locale}: the id {utterance.utterance_id!r} is empty or doubled")
        seen.add(utterance.utterance_id)
        if not utterance.reference.is_file():
            raise MediaError(f"{utterance.reference}: no such file")
    return [_item(utterance, options) for utterance in utterances]


def _item(utterance: Utterance, options: SeedTtsOptions) -> EvalItem:
    truth = Truth(
        item_id=utterance.utterance_id,
        target=utterance.target_text,
        language=options.locale,
        reference=utterance.reference,
    )
    return EvalItem(truth, partial(utterance_request, utterance, options))
