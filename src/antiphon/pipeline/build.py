"""The composition root: from the name of a model to a loaded `OmniModel`."""

from collections.abc import Collection
from pathlib import Path
from typing import Literal

import torch

from antiphon.config.checkpoint_files import (
    load_image_config,
    load_model_config,
    shipped_image_config,
    shipped_model_config,
)
from antiphon.config.flow_files import FLOW_YAML, read_flow_config, shipped_flow_config
from antiphon.core.errors import CheckpointError, ConfigError
from antiphon.models.dummy import build_dummy_stages
from antiphon.models.loading import choose_dtype, load_stages
from antiphon.models.stages import STAGE_NAMES, LoadProgress
from antiphon.pipeline.omni_model import OmniModel
from antiphon.pipeline.source import HUB_ID, local_folder, resolve_source
from antiphon.prompt.tokenizer import Tokenizer

__all__ = ["LoadFormat", "LoadProgress", "build_omni_model", "resolve_source"]

LoadFormat = Literal["auto", "dummy"]
_SHIPPED_NAMES = (HUB_ID, "dummy")  # names that stand for the shipped real sizes when no files are read


def build_omni_model(
    source: str | Path,
    *,
    device: torch.device,
    dtype: torch.dtype | None = None,
    load_format: LoadFormat = "auto",
    with_speech: bool = True,
    only: Collection[str] = STAGE_NAMES,
    progress: LoadProgress | None = None,
) -> OmniModel:
    """Load *source* (`tiny`, a folder, a hub id) onto *device*.

    Args:
        dtype: of Thinker and Talker; None: the checkpoint's own, on the CPU float32. Code2Wav is always float32.
        load_format: `dummy` reads a folder's configuration only (for the hub id or the word `dummy`: the shipped real
            values) and makes random weights on the device.
        with_speech: load Talker and Code2Wav too.
        only: stages that get weights, on this worker; the others are shapes without memory.
        progress: called with bytes placed so far and bytes in all.

    Raises:
        CheckpointError: nothing is found under that name, or what is found is not a complete checkpoint.
        ConfigError: unknown load format.
    """
    if load_format == "dummy":
        return _build_dummy(source, device, dtype, with_speech, only, progress)
    if load_format != "auto":
        raise ConfigError(f"load_format is {load_format!r}; known: auto, dummy")
    folder = resolve_source(source)
    config = load_model_config(folder)
    image_config = load_image_config(folder)
    tokenizer = Tokenizer.load(folder)
    _check_vocabulary(tokenizer, config.vocab_size, folder)
    stages = load_stages(
        folder,
        config,
        device=device,
        dtype=choose_dtype(config, device, dtype),
        flow_config=read_flow_config(folder) if with_speech else None,
        only=only,
        progress=progress,
    )
    return OmniModel(
        config=config,
        image_config=image_config,
        tokenizer=tokenizer,
        thinker=stages.thinker,
        talker=stages.talker,
        code2wav=stages.code2wav,
        device=device,
        folder=folder,
    )


def _build_dummy(
    source: str | Path,
    device: torch.device,
    dtype: torch.dtype | None,
    with_speech: bool,
    only: Collection[str],
    progress: LoadProgress | None,
) -> OmniModel:
    folder = None if str(source) in _SHIPPED_NAMES and not Path(source).is_dir() else local_folder(source)
    config = shipped_model_config() if folder is None else load_model_config(folder)
    image_config, flow_config = shipped_image_config(), shipped_flow_config()
    tokenizer = None
    if folder is not None:
        if (folder / "preprocessor_config.json").is_file():
            image_config = load_image_config(folder)
        if (folder / FLOW_YAML).is_file():
            flow_config = read_flow_config(folder)
        if (folder / "tokenizer.json").is_file():
            tokenizer = Tokenizer.load(folder)
            _check_vocabulary(tokenizer, config.vocab_size, folder)
    stages = build_dummy_stages(
        config,
        device=device,
        dtype=choose_dtype(config, device, dtype),
        flow_config=flow_config if with_speech else None,
        only=only,
        progress=progress,
    )
    return OmniModel(
        config=config,
        image_config=image_config,
        tokenizer=tokenizer if tokenizer is not None else Tokenizer.placeholder(config.vocab_size),
        thinker=stages.thinker,
        talker=stages.talker,
        code2wav=stages.code2wav,
        device=device,
        folder=None,
    )


def _check_vocabulary(tokenizer: Tokenizer, vocab_size: int, folder: Path) -> None:
    """A tokenizer larger than the embedding table is another model's, and would end in an index error much later."""
    if tokenizer.vocab_size > vocab_size:
        raise CheckpointError(
            f"{folder / 'tokenizer.json'}: has {tokenizer.vocab_size} ids, config.json says {vocab_size}; "
            "the two files are from different models"
        )
