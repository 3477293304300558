"""Load the three stages from a checkpoint folder: every name accounted for, every tensor straight to its place.

The checkpoint's spellings (`tts.`, `generator.`) end here. Sources: model specification 1.4, 4.3, 4.7.
"""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from antiphon.config.checkpoint import FlowConfig, ModelConfig
from antiphon.config.checkpoint_files import TOKEN2WAV
from antiphon.core.errors import CheckpointError
from antiphon.models.code2wav.code2wav import Code2Wav
from antiphon.models.code2wav.config import HiFTConfig
from antiphon.models.placing import Filler, build_empty, finish
from antiphon.models.shards import Shards
from antiphon.models.stages import STAGE_NAMES, LoadProgress, Stages
from antiphon.models.talker.talker import Talker
from antiphon.models.tensor_names import NameAccount, account, require_clean
from antiphon.models.thinker.thinker import Thinker
from antiphon.models.torch_files import headers, read_torch_file
from antiphon.models.weight_norm import HIFT_NORMED, TALKER_NORMED, plain_shapes

TALKER_PREFIX = "tts."
HIFT_PREFIX = "generator."
# In the checkpoint, read by no code path: the Llama's own embedding (codes use emb_code) and the speaker projector.
UNUSED = frozenset(
    {"tts.model.embed_tokens.weight"}
    | {f"tts.projector_spk.linear{index}.{leaf}" for index in (1, 2) for leaf in ("weight", "bias")}
)
_DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}


@dataclass(frozen=True)
class Token2WavFiles:
    """`flow.pt` and `hift.pt`, mapped into memory, and the empty stage that they fill."""

    stage: Code2Wav
    flow: dict[str, Tensor]
    hift: dict[str, Tensor]
    flow_filler: Filler
    hift_filler: Filler
    accounts: tuple[NameAccount, NameAccount]


def choose_dtype(config: ModelConfig, device: torch.device, dtype: torch.dtype | None) -> torch.dtype:
    """The dtype of Thinker and Talker: what was asked for, else the checkpoint's own, on the CPU float32."""
    if dtype is not None:
        return dtype
    if device.type == "cpu":
        return torch.float32
    if config.dtype not in _DTYPES:
        raise CheckpointError(f"config.json: torch_dtype is {config.dtype!r}; known: {', '.join(_DTYPES)}")
    return _DTYPES[config.dtype]


def thinker_filler(config: ModelConfig, device: torch.device, dtype: torch.dtype) -> tuple[Thinker, Filler]:
    """An empty Thinker and what fills it from the safetensors names."""
    stage = build_empty(lambda: Thinker(config))
    return stage, Filler(stage, device=device, dtype=dtype)


def talker_filler(config: ModelConfig, device: torch.device, dtype: torch.dtype) -> tuple[Talker, Filler]:
    """An empty Talker and what fills it from the safetensors names."""
    stage = build_empty(lambda: Talker(config.talker))
    return stage, Filler(stage, device=device, dtype=dtype, prefix=TALKER_PREFIX, normed=TALKER_NORMED)


def open_token2wav(folder: Path, flow_config: FlowConfig, device: torch.device) -> Token2WavFiles:
    """Map `assets/token2wav/{flow,hift}.pt` and compare their names with the stage of these sizes."""
    flow_path, hift_path = folder / TOKEN2WAV / "flow.pt", folder / TOKEN2WAV / "hift.pt"
    flow = read_torch_file(flow_path)
    hift = read_torch_file(hift_path, strip_prefix=HIFT_PREFIX)
    # The vocoder has no config file anywhere; its sizes are those of its weights.
    shapes = plain_shapes({name: tuple(value.shape) for name, value in hift.items()})
    try:
        hift_config = HiFTConfig.from_shapes(shapes)
    except CheckpointError as error:
        raise CheckpointError(f"{hift_path}: {error}; is this the vocoder of MiniCPM-o 4.5?") from error
    stage = build_empty(lambda: Code2Wav(flow_config, hift_config))
    # Always float32: exp, sin and the inverse transform of the vocoder overflow in half precision.
    flow_filler = Filler(stage.flow, device=device, dtype=torch.float32)
    hift_filler = Filler(stage.hift, device=device, dtype=torch.float32, normed=HIFT_NORMED)
    accounts = (
        account(str(flow_path), flow_filler.expected, headers(flow)),
        account(str(hift_path), hift_filler.expected, headers(hift)),
    )
    return Token2WavFiles(stage, flow, hift, flow_filler, hift_filler, accounts)


def load_stages(
    folder: Path,
    config: ModelConfig,
    *,
    device: torch.device,
    dtype: torch.dtype,
    flow_config: FlowConfig | None,
    only: Collection[str] = STAGE_NAMES,
    progress: LoadProgress | None = None,
) -> Stages:
    """Load a checkpoint.

    Without *flow_config* (text only) the Talker's tensors are accounted for but not read, and token2wav is not opened.
    Stages that are not in *only* stay without memory.

    Raises:
        CheckpointError: a file is absent or damaged, or names or shapes differ: all of them in one error.
    """
    shards = Shards(folder)
    thinker, thinker_fill = thinker_filler(config, device, dtype)
    talker, talker_fill = talker_filler(config, device, dtype)
    found = {name: entry for name, entry in shards.headers.items() if name not in UNUSED}
    accounts = [account(str(folder), {**thinker_fill.expected, **talker_fill.expected}, found)]
    token2wav = None if flow_config is None else open_token2wav(folder, flow_config, device)
    if token2wav is not None:
        accounts += token2wav.accounts
    require_clean(accounts)

    fillers = dict.fromkeys(thinker_fill.expected, thinker_fill) if "thinker" in only else {}
    if token2wav is not None and "talker" in only:
        fillers |= dict.fromkeys(talker_fill.expected, talker_fill)
    sizes = {name: found[name].num_bytes for name in fillers}
    speech = (
        ()
        if token2wav is None or "code2wav" not in only
        else ((token2wav.flow, token2wav.flow_filler), (token2wav.hift, token2wav.hift_filler))
    )
    total = sum(sizes.values()) + sum(value.nbytes for tensors, _ in speech for value in tensors.values())
    done = 0
    for name, value in shards.tensors(set(fillers)):
        fillers[name].put(name, value)
        done += sizes[name]
        if progress is not None:
            progress(done, total)
    for tensors, filler in speech:
        for name in list(tensors):
            value = tensors.pop(name)
            filler.put(name, value)
            done += value.nbytes
            if progress is not None:
                progress(done, total)
    return Stages(
        finish(thinker, device) if "thinker" in only else thinker.to(dtype),
        None if token2wav is None else finish(talker, device) if "talker" in only else talker.to(dtype),
        None if token2wav is None else finish(token2wav.stage, device) if "code2wav" in only else token2wav.stage,
    )
