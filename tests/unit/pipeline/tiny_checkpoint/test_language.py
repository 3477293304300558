"""What the tiny model does when it is sampled: short varied answers, speech that ends, a choice to listen or speak."""

from pathlib import Path

import pytest
import torch

from antiphon.layers.kv_cache import CausalAttend, KVCache
from antiphon.models.talker.talker import Talker
from antiphon.pipeline.build import build_omni_model
from antiphon.pipeline.omni_model import OmniModel


@pytest.fixture(scope="module")
def model(tiny_checkpoint: Path) -> OmniModel:
    return build_omni_model(tiny_checkpoint, device=torch.device("cpu"))


def sample_text(model: OmniModel, prompt: str, generator: torch.Generator, limit: int = 200) -> list[int]:
    """Ids drawn at temperature 0.7 from the 100 likeliest, up to `<|im_end|>`."""
    ids = model.tokenizer.encode(f"<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n<|tts_bos|>")
    cache = KVCache(model.config.llm.num_layers)
    said: list[int] = []
    while len(said) < limit:
        positions = torch.arange(len(cache), len(cache) + len(ids))
        hidden = model.thinker(model.thinker.embed(torch.tensor(ids)), positions, CausalAttend(cache))
        values, indices = (model.thinker.logits(hidden[-1]) / 0.7).topk(100)
        token = int(indices[torch.multinomial(values.softmax(-1), 1, generator=generator)])
        if token == model.tokenizer.special.im_end:
            break
        said.append(token)
        ids = [token]
    return said


@torch.inference_mode()
def test_answers_are_varied_and_end(model: OmniModel) -> None:
    generator = torch.Generator().manual_seed(0)
    answers = [sample_text(model, "hi", generator) for _ in range(8)]
    assert all(1 < len(answer) < 200 for answer in answers)
    assert all(answer[-1] == model.tokenizer.special.tts_eos for answer in answers)
    assert len({token for answer in answers for token in answer}) > 30
    texts = [model.tokenizer.decode(answer, skip_special=True) for answer in answers]
    assert all(text and "\ufffd" not in text for text in texts)


def count_codes(talker: Talker, generator: torch.Generator, minimum: int = 50) -> int:
    """Codes drawn at temperature 0.8 from the 25 likeliest until the end of speech, which may come after *minimum*."""
    config = talker.config
    embeds = talker.embed_text(torch.tensor([5, 6, 7, config.text_eos_id, config.audio_bos_id]))
    cache = KVCache(config.decoder.num_layers)
    for step in range(2048):
        positions = torch.arange(len(cache), len(cache) + len(embeds))
        logits = talker.logits(talker(embeds, positions, CausalAttend(cache))[-1]) / 0.8
        if step < minimum:
            logits[config.codec_eos_id] = -torch.inf
        values, indices = logits.topk(25)
        code = int(indices[torch.multinomial(values.softmax(-1), 1, generator=generator)])
        if code == config.codec_eos_id:
            return step
        embeds = talker.embed_codes(torch.tensor([code]))
    return 2048


@torch.inference_mode()
def test_speech_ends_after_a_few_seconds(model: OmniModel) -> None:
    assert model.talker is not None
    generator = torch.Generator().manual_seed(0)
    counts = [count_codes(model.talker, generator) for _ in range(5)]
    assert max(counts) < 200


@torch.inference_mode()
def test_after_a_second_of_audio_it_listens_or_speaks(model: OmniModel) -> None:
    rows = model.thinker.encode_audio([torch.rand(80, 100)])[0]
    head = model.thinker.embed(torch.tensor(model.tokenizer.encode("<|im_start|>system\nhi<|im_end|><unit>")))
    embeds = torch.cat((head, rows))
    hidden = model.thinker(embeds, torch.arange(len(embeds)), CausalAttend(KVCache(model.config.llm.num_layers)))
    chances = model.thinker.logits(hidden[-1]).softmax(-1)
    special = model.tokenizer.special
    assert chances[special.listen] + chances[special.speak] > 0.9
    assert min(chances[special.listen], chances[special.speak]) > 0.05
