"""Refuses prompts with more media than the deploy configuration allows, before any of it is decoded."""

from collections import Counter
from collections.abc import Mapping, Sequence

from antiphon.config.deploy import MediaLimits
from antiphon.core.errors import PromptError
from antiphon.offline.prompt_input import MEDIA_KEYS, PromptInput, entries_of


def check_media_limits(prompt: PromptInput, limits: MediaLimits) -> None:
    """Raises PromptError naming kind and limit. What is no valid prompt is left to the parser."""
    counts = _count(prompt)
    for kind, limit in (("image", limits.image), ("audio", limits.audio), ("video", limits.video)):
        if limit is not None and counts[kind] > limit:
            raise PromptError(f"the prompt has {counts[kind]} media of kind {kind}; at most {limit} are allowed")


def _count(prompt: PromptInput) -> "Counter[str]":
    counts: Counter[str] = Counter()
    if not isinstance(prompt, Mapping):
        return counts
    media = prompt.get("multi_modal_data")
    if isinstance(media, Mapping):
        for kind in MEDIA_KEYS:
            counts[kind] += len(entries_of(kind, media.get(kind)))
    messages = prompt.get("messages")
    for message in messages if isinstance(messages, Sequence) else ():
        content = message.get("content") if isinstance(message, Mapping) else None
        for part in content if isinstance(content, Sequence) else ():
            if isinstance(part, Mapping):
                counts[str(part.get("type"))] += 1
    return counts
