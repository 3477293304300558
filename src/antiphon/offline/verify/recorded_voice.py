"""The recorded voice and the layouts in which the reference's caches were recorded."""

import torch
from torch import Tensor

from antiphon.audio.voice import VoiceFeatures
from antiphon.core.errors import CheckpointError
from antiphon.models.code2wav.cfm import SolverCache
from antiphon.models.code2wav.code2wav import Code2Wav
from antiphon.models.code2wav.conformer import EncoderCache
from antiphon.models.code2wav.hift_source import NoSourceNoise
from antiphon.offline.verify.context import VerifyContext
from antiphon.pipeline.eager.vocoder import Vocoder

PROMPT = "07_code2wav/prompt.safetensors"


def code2wav_of(context: VerifyContext) -> Code2Wav:
    stage = context.model.code2wav
    if stage is None:
        raise CheckpointError("verify: the model was loaded without its speech stages")
    return stage


def recorded_vocoder(context: VerifyContext) -> Vocoder:
    """A vocoder with the recorded voice and start noise and no source noise: every session was run with it."""

    def make() -> Vocoder:
        golden = context.golden
        voice = VoiceFeatures(
            codes=golden.tensor(PROMPT, "prompt_tokens")[0].long().numpy(),
            xvector=golden.tensor(PROMPT, "spk_emb")[0].numpy(),
            mel=golden.tensor(PROMPT, "prompt_mel")[0].numpy(),
        )
        return Vocoder(
            code2wav_of(context), voice, noise=golden.tensor(PROMPT, "rand_noise"), source_noise=NoSourceNoise()
        )

    return context.once("code2wav/vocoder", make)


def doubled(cache: EncoderCache) -> Tensor:
    """Keys and values as recorded: [layers, B, H, frames, 2D], the token-rate layers twice along time."""
    return torch.cat((cache.token_kv.repeat(1, 1, 1, 2, 1), cache.frame_kv))


def joined(cache: SolverCache, step: int) -> Tensor:
    """One step's keys and values as recorded: [depth, rows, H, frames, 2D]."""
    return torch.cat((cache.keys[step], cache.values[step]), dim=-1)
