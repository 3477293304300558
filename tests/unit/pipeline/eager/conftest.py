from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import torch

from antiphon.config.checkpoint import DecoderConfig, TalkerConfig
from antiphon.config.checkpoint_files import shipped_image_config, shipped_model_config
from antiphon.models.talker.talker import Talker
from antiphon.models.thinker.thinker import Thinker
from antiphon.pipeline.omni_model import OmniModel
from antiphon.prompt.tokenizer import Tokenizer


def talker_config(*, max_positions: int = 4096, attention_type: str = "full_attention") -> TalkerConfig:
    """32 codec ids (31 ends), 40 text ids (38 audio_bos, 39 text_eos), Thinker rows of 12."""
    return TalkerConfig(
        decoder=DecoderConfig(
            hidden_size=16,
            intermediate_size=24,
            num_layers=2,
            num_heads=2,
            num_kv_heads=2,
            head_dim=8,
            rms_norm_eps=1e-6,
            rope_theta=10_000.0,
            max_positions=max_positions,
            has_qk_norm=False,
        ),
        llm_hidden_size=12,
        num_codec_ids=32,
        num_text_ids=40,
        audio_bos_id=38,
        text_eos_id=39,
        normalize_projected=True,
        attention_type=attention_type,
        window_chunks=2,
        recomputed_chunks=1,
        window_tokens=12,
    )


@pytest.fixture
def make_talker() -> Callable[..., Talker]:
    """Makes a tiny Talker of random weights; same weights for whatever settings."""

    def make(**settings: object) -> Talker:
        torch.manual_seed(5)
        return Talker(talker_config(**settings)).requires_grad_(False)  # type: ignore[arg-type]

    return make


class RecordingNoise:
    """Returns the best id, or what a script says at a draw, and keeps every distribution it was shown."""

    def __init__(self, script: dict[int, int] | None = None) -> None:
        self.script = script or {}
        self.seen: list[torch.Tensor] = []

    def draw(self, probs: torch.Tensor) -> int:
        self.seen.append(probs)
        return self.script.get(len(self.seen) - 1, int(probs[:31].argmax()))


@pytest.fixture
def recording() -> Callable[..., RecordingNoise]:
    return RecordingNoise


@pytest.fixture(scope="session")
def make_omni() -> Callable[..., OmniModel]:
    """Makes a tiny model of random weights and a placeholder tokenizer, without a vocoder; same weights every time."""

    def make(*, max_positions: int = 4096) -> OmniModel:
        real, vocab_size = shipped_model_config(), 512
        sizes = {"hidden_size": 16, "intermediate_size": 24, "num_layers": 1, "num_heads": 2}
        llm_sizes = {"hidden_size": 128, "num_layers": 2, "num_kv_heads": 1, "head_dim": 8}
        config = replace(
            real,
            vocab_size=vocab_size,
            num_queries=4,
            llm=replace(real.llm, **{**sizes, **llm_sizes, "max_positions": max_positions}),
            vision=replace(real.vision, **sizes, table_side=8),
            audio=replace(real.audio, **sizes),
            talker=replace(talker_config(), num_text_ids=vocab_size, llm_hidden_size=128),
        )
        torch.manual_seed(6)
        thinker, talker = Thinker(config), Talker(config.talker)
        for parameter in (*thinker.parameters(), *talker.parameters()):
            torch.nn.init.normal_(parameter, std=0.1)
        return OmniModel(
            config=config,
            image_config=replace(shipped_image_config(), num_queries=4, scale_resolution=56),
            tokenizer=Tokenizer.placeholder(vocab_size),
            thinker=thinker.eval().requires_grad_(False),
            talker=talker.eval().requires_grad_(False),
            code2wav=None,
            device=torch.device("cpu"),
            folder=None,
        )

    return make


@pytest.fixture(scope="session")
def omni(make_omni: Callable[..., OmniModel]) -> OmniModel:
    return make_omni()


class FakeVoice:
    """Gives back 960 samples a code, worth the code's number; remembers how it was called."""

    def __init__(self) -> None:
        self.pushed: list[tuple[int, bool, bool]] = []
        self.num_resets = 0

    def push(self, codes: Sequence[int], *, first: bool, end_of_turn: bool) -> torch.Tensor:
        self.pushed.append((len(codes), first, end_of_turn))
        return torch.tensor(codes, dtype=torch.float32).add(1).repeat_interleave(960)

    def reset(self) -> None:
        self.num_resets += 1


@pytest.fixture
def voice() -> FakeVoice:
    return FakeVoice()
