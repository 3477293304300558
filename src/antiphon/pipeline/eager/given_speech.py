"""Speaks a given text at batch 1: its tokens are forwarded behind the prompt, and their rows condition the Talker.

The slow twin of the engine's path for requests with `given`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.core.sampling import SamplingParams
from antiphon.engine.noise import NoiseSource
from antiphon.pipeline.eager.answer_speech import StreamSpeech
from antiphon.pipeline.eager.answer_text import SpokenToken
from antiphon.pipeline.eager.prompt_rows import embed_prompt
from antiphon.pipeline.eager.thinker import ThinkerSequence
from antiphon.pipeline.eager.vocoder import Vocoder
from antiphon.pipeline.omni_model import OmniModel
from antiphon.pipeline.speech import PIECE_TOKENS
from antiphon.prompt.chat_prompt import ChatPrompt


@dataclass(frozen=True)
class GivenSpeech:
    """What was spoken."""

    codes: tuple[int, ...]
    samples: Tensor  # [N] float32, 24 kHz


@torch.inference_mode()
def speak_given(
    model: OmniModel,
    prompt: ChatPrompt,
    given: Sequence[int],
    *,
    vocoder: Vocoder,
    talker_params: SamplingParams,
    noise: Callable[[int], NoiseSource],
) -> GivenSpeech:
    """Speak *given* token ids behind *prompt*. *talker_params* has a seed, from which *noise* makes the draws."""
    assert model.talker is not None
    assert talker_params.seed is not None
    sequence = ThinkerSequence(model.thinker)
    sequence.feed(embed_prompt(model, prompt))
    hidden = sequence.feed_ids(list(given))
    tokens = [SpokenToken(token_id, hidden[place], 0) for place, token_id in enumerate(given)]
    speech = StreamSpeech(model.talker, vocoder, talker_params, noise(talker_params.seed), lambda _: None)
    pieces = [tokens[place : place + PIECE_TOKENS] for place in range(0, len(tokens), PIECE_TOKENS)]
    samples: list[Tensor] = []
    for number, piece in enumerate(pieces, start=1):
        samples += speech.speak(piece, is_last=number == len(pieces))
    return GivenSpeech(speech.codes, torch.cat(samples))
