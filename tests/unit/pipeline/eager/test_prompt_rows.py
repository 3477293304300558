import numpy as np
import torch
from PIL import Image

from antiphon.pipeline.eager.prompt_rows import embed_prompt
from antiphon.pipeline.omni_model import OmniModel
from antiphon.prompt.chat_prompt import ChatPrompt, build_chat_prompt
from antiphon.prompt.messages import AudioPart, ImagePart, Message, TextPart


def prompt(omni: OmniModel, brightness: int = 90, loudness: float = 0.1) -> ChatPrompt:
    samples = (loudness * np.random.default_rng(0).standard_normal(16_000)).astype(np.float32)
    parts = (ImagePart(Image.new("RGB", (56, 56), (brightness, 0, 0))), TextPart("hi"), AudioPart(samples))
    return build_chat_prompt([Message("user", parts)], omni.tokenizer, omni.image_config)


@torch.inference_mode()
def test_only_placeholder_rows_are_overwritten(omni: OmniModel) -> None:
    built = prompt(omni)
    rows = embed_prompt(omni, built)
    plain = omni.thinker.embed(torch.tensor(built.ids))
    changed = (rows != plain).any(-1).nonzero()[:, 0].tolist()
    bounds = [*built.image_bounds, *built.audio_bounds]
    assert changed == [place for start, end in bounds for place in range(start, end)]


@torch.inference_mode()
def test_each_medium_fills_its_own_rows(omni: OmniModel) -> None:
    built = prompt(omni)
    rows = embed_prompt(omni, built)
    image, audio = slice(*built.image_bounds[0]), slice(*built.audio_bounds[0])
    other_image, other_audio = (
        embed_prompt(omni, prompt(omni, brightness=10)),
        embed_prompt(omni, prompt(omni, loudness=0.3)),
    )
    assert not torch.equal(rows[image], other_image[image])
    assert torch.equal(rows[audio], other_image[audio])
    assert not torch.equal(rows[audio], other_audio[audio])
