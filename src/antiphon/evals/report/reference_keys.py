"""The keys that vLLM-Omni's benchmark gives the same figures, so that scripts which read its files read ours."""

from collections.abc import Sequence

import numpy as np

from antiphon.evals.metrics import WORDS
from antiphon.evals.report.summary import count_where
from antiphon.evals.scoring.scored import Scored

SEED_TTS, DAILY_OMNI, VIDEO_MME = "seed-tts", "daily-omni", "video-mme"


def reference_keys(kind: str, items: Sequence[Scored]) -> dict[str, object]:
    """Keys for the root of a document of *kind*; a mean of nothing is null."""
    if kind == SEED_TTS:
        return _speech_keys(items)
    if kind == DAILY_OMNI:
        return _choice_keys("daily_omni", items)
    if kind == VIDEO_MME:
        asked_again = {"videomme_submitted": len(items), "videomme_unique_question_ids": len(items)}
        return {**_choice_keys("videomme", items), **asked_again}
    return {}


def _speech_keys(items: Sequence[Scored]) -> dict[str, object]:
    rates, similarities = _values(items, "wer"), _values(items, "sim")
    return {
        "seed_tts_content_error_mean": _mean(rates),
        "seed_tts_content_error_median": float(np.median(rates)) if rates else None,
        "seed_tts_content_error_evaluated": len(rates),
        "seed_tts_request_failed": count_where(items, lambda item: bool(item.error)),
        "seed_tts_no_pcm": count_where(items, lambda item: not item.error and "audio_s" not in item.marks.values),
        "seed_tts_asr_failed": count_where(
            items, lambda item: WORDS in item.problems and "audio_s" in item.marks.values
        ),
        "seed_tts_sim_mean": _mean(similarities),
        "seed_tts_sim_evaluated": len(similarities),
    }


def _choice_keys(prefix: str, items: Sequence[Scored]) -> dict[str, object]:
    hits = _values(items, "accuracy")
    unread = count_where(items, lambda item: item.marks.details.get("letter") == "")
    return {
        f"{prefix}_accuracy": _mean(hits),
        f"{prefix}_accuracy_incl_http_fail": sum(hits) / len(items) if items else None,
        f"{prefix}_correct": round(sum(hits)),
        f"{prefix}_evaluated_ok": len(hits),
        f"{prefix}_request_failed": count_where(items, lambda item: bool(item.error)),
        f"{prefix}_parse_failed": unread,
    }


def _values(items: Sequence[Scored], name: str) -> list[float]:
    return [item.marks.values[name] for item in items if name in item.marks.values]


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None
