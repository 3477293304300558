"""The loaded model as generation uses it: the three stages, their tokenizer and what the checkpoint says."""

from dataclasses import dataclass
from pathlib import Path

import torch

from antiphon.config.checkpoint import ImageConfig, ModelConfig
from antiphon.models.code2wav.code2wav import Code2Wav
from antiphon.models.talker.talker import Talker
from antiphon.models.thinker.thinker import Thinker
from antiphon.prompt.tokenizer import Tokenizer


@dataclass(frozen=True)
class OmniModel:
    """Everything one process needs to generate. `talker` and `code2wav` are None when loaded for text only."""

    config: ModelConfig
    image_config: ImageConfig
    tokenizer: Tokenizer
    thinker: Thinker
    talker: Talker | None
    code2wav: Code2Wav | None
    device: torch.device
    folder: Path | None  # where the voice front ends and the default voice lie; None for --load-format dummy
