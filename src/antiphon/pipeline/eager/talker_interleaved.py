"""Speech over a list of complete conditions, one duplex-like chunk each (model specification, 3.4; unused upstream)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.core.errors import ConfigError
from antiphon.engine.noise import NoiseSource
from antiphon.engine.talker_sampling import TalkerSampling
from antiphon.models.talker.talker import Talker
from antiphon.pipeline.eager.talker import SpokenCodes, TalkerSequence


@dataclass(frozen=True)
class InterleavedChunk:
    """One condition's codes; how long the prompt for them was and where it was put, before any rollover."""

    spoken: SpokenCodes
    prompt_len: int
    start_position: int


def interleaved_generate(
    talker: Talker,
    conditions: Sequence[Tensor],
    noise: NoiseSource,
    *,
    attention_type: str | None = None,
    sampling: TalkerSampling | None = None,
    min_codes: int = 0,
    max_draws: int = 500,
) -> Iterator[InterleavedChunk]:
    """Speak *conditions*, each [n, H] closed by audio_bos, one after another.

    `sliding_recompute` starts afresh for every condition once `window_chunks` were spoken, with the latest
    `recomputed_chunks` conditions and their codes in front. *attention_type* None: the checkpoint's own.

    Raises:
        ConfigError: the attention type has no rule here (the reference fails with it as well).
    """
    kind = attention_type or talker.config.attention_type
    if kind not in ("full_attention", "sliding_recompute"):
        raise ConfigError(f"interleaved speech with attention_type {kind!r}; known: full_attention, sliding_recompute")
    sequence = TalkerSequence(talker, noise, sampling=sampling)
    spoken: list[tuple[Tensor, tuple[int, ...]]] = []
    for index, condition in enumerate(conditions):
        prompt = condition
        if kind == "sliding_recompute" and index >= talker.config.window_chunks:
            sequence.reset()
            recent = spoken[-talker.config.recomputed_chunks :]
            parts = [part for rows, codes in recent for part in (rows, sequence.context.embed_codes(list(codes)))]
            prompt = torch.cat((*parts, condition))
        start = sequence.position
        chunk = sequence.generate_chunk(prompt, min_codes=min_codes, max_draws=max_draws)
        spoken.append((condition, chunk.codes))
        yield InterleavedChunk(chunk, prompt.shape[0], start)
