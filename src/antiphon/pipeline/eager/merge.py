"""Writes image and audio rows over the placeholder rows of an embedded prompt. Specification, section 2.2."""

from collections.abc import Sequence

import torch
from torch import Tensor

from antiphon.core.errors import PromptError

Bounds = Sequence[tuple[int, int]]  # half-open spans of positions


def merge_media(embeds: Tensor, bounds: Bounds, rows: Sequence[Tensor]) -> Tensor:
    """Overwrite the spans of *embeds* [T, hidden] with *rows*, joined and cut along the spans. Returns a new tensor.

    This is the rule for audio: rows left over are dropped, because placeholders are counted per part and rows come from
    parts that may have been merged. Raises PromptError if there are fewer rows than placeholders.
    """
    if not bounds:
        return embeds
    positions = torch.cat([torch.arange(start, end) for start, end in bounds])
    joined = torch.cat(tuple(rows)) if rows else embeds[:0]
    if len(joined) < len(positions):
        raise PromptError(f"prompt has {len(positions)} media placeholders but its media give {len(joined)} rows")
    merged = embeds.clone()
    merged[positions.to(embeds.device)] = joined[: len(positions)].to(embeds)
    return merged


def merge_images(embeds: Tensor, bounds: Bounds, blocks: Sequence[Tensor]) -> Tensor:
    """Overwrite the k-th span with the k-th block [num_queries, hidden]; PromptError unless they fit one to one."""
    spans, sizes = [end - start for start, end in bounds], [len(block) for block in blocks]
    if spans != sizes:
        raise PromptError(f"prompt has image spans of {spans} positions but its images give blocks of {sizes} rows")
    return merge_media(embeds, bounds, blocks)
