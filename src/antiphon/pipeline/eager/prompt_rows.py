"""A built prompt to the rows the Thinker is prefilled with: embedded ids, overwritten by encoded images and clips."""

import torch
from torch import Tensor

from antiphon.audio.mel import offline_mels
from antiphon.pipeline.eager.merge import merge_images, merge_media
from antiphon.pipeline.omni_model import OmniModel
from antiphon.prompt.chat_prompt import ChatPrompt


def embed_prompt(model: OmniModel, prompt: ChatPrompt) -> Tensor:
    """Rows [T, hidden] of *prompt* on the model's device, in the Thinker's dtype.

    All clips of the prompt go through the audio encoder as one batch, because their padding shows in the result
    (model specification, 2.6).
    """
    thinker, device = model.thinker, model.device
    embeds = thinker.embed(torch.tensor(prompt.ids, dtype=torch.int64, device=device))
    if prompt.strips:
        strips = [torch.from_numpy(strip).to(device) for strip in prompt.strips]
        embeds = merge_images(embeds, prompt.image_bounds, thinker.encode_images(strips, prompt.patch_grids))
    if prompt.clips:
        num_bins = model.config.audio.num_mel_bins
        mels = [
            torch.from_numpy(mel).to(device) for clip in prompt.clips for mel in offline_mels(clip, num_bins=num_bins)
        ]
        embeds = merge_media(embeds, prompt.audio_bounds, thinker.encode_audio(mels))
    return embeds
