"""Stages of real size with random values made on the device (`--load-format dummy`): for speed, not for sense.

Every activation stays finite: norms are identities, matrices keep the variance of their input, and no modulation or
output layer is zero, so that no kernel works on trivial data.
"""

import re
from collections.abc import Collection
from functools import partial

import torch
from torch import Tensor, nn

from antiphon.config.checkpoint import FlowConfig, ModelConfig
from antiphon.models.code2wav.code2wav import Code2Wav
from antiphon.models.code2wav.config import HiFTConfig
from antiphon.models.placing import assign, build_empty, finish
from antiphon.models.stages import STAGE_NAMES, LoadProgress, Stages
from antiphon.models.talker.talker import Talker
from antiphon.models.thinker.thinker import Thinker

_SMALL_STD = 0.02
# Tables that are added to activations, and embeddings: small, as a fresh model has them.
_TABLES = re.compile(
    r"(^|\.)(embed_tokens|emb_text|emb_code|input_embedding|position_embedding|embed_positions)\b|query$"
)


def dummy_value(
    name: str, shape: tuple[int, ...], device: torch.device, dtype: torch.dtype, generator: torch.Generator
) -> Tensor:
    """A random value for the parameter *name*, made on *device*."""
    if len(shape) == 1:
        is_scale = name.endswith((".weight", ".alpha"))  # norms, and the vocoder's periodic activations
        return torch.full(shape, 1.0 if is_scale else 0.0, device=device, dtype=dtype)
    value = torch.empty(shape, device=device, dtype=dtype)
    fan_in = value[0].numel()
    std = _SMALL_STD if _TABLES.search(name) else fan_in**-0.5
    return value.normal_(0.0, std, generator=generator)


def build_dummy_stages(
    config: ModelConfig,
    *,
    device: torch.device,
    dtype: torch.dtype,
    flow_config: FlowConfig | None,
    only: Collection[str] = STAGE_NAMES,
    seed: int = 0,
    progress: LoadProgress | None = None,
) -> Stages:
    """Stages of the given sizes (the vocoder: the real ones) with values drawn from *seed* on the device.

    Without *flow_config* (text only) there is a Thinker alone. Stages that are not in *only* stay without memory.
    """
    thinker = build_empty(partial(Thinker, config))
    talker = None if flow_config is None else build_empty(partial(Talker, config.talker))
    code2wav = None if flow_config is None else build_empty(partial(Code2Wav, flow_config, HiFTConfig.real()))
    stages: list[tuple[str, nn.Module, torch.dtype]] = [("thinker", thinker, dtype)]
    if talker is not None:
        stages.append(("talker", talker, dtype))
    if code2wav is not None:
        stages.append(("code2wav", code2wav, torch.float32))
    filled = [(stage, kind) for name, stage, kind in stages if name in only]
    total = sum(value.numel() * kind.itemsize for stage, kind in filled for value in stage.parameters())
    generator = torch.Generator(device).manual_seed(seed)
    done = 0
    for name, stage, kind in stages:
        if name not in only:
            stage.to(kind)
    for stage, kind in filled:
        for name, empty in list(stage.named_parameters()):
            assign(stage, name, dummy_value(name, tuple(empty.shape), device, kind, generator))
            done += empty.numel() * kind.itemsize
            if progress is not None:
                progress(done, total)
        finish(stage, device)
    return Stages(thinker, talker, code2wav)
