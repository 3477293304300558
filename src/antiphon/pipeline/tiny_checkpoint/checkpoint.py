"""Write the tiny checkpoint: every file of the real layout, the same bytes for the same seed."""

import hashlib
import shutil
import tempfile
from functools import partial
from pathlib import Path
from re import Pattern

import torch
from safetensors.torch import save_file
from torch import Tensor

from antiphon.config.checkpoint_files import TOKEN2WAV, load_model_config
from antiphon.config.flow_files import read_flow_config
from antiphon.core.errors import CheckpointError
from antiphon.models.code2wav.code2wav import Code2Wav
from antiphon.models.loading import TALKER_PREFIX
from antiphon.models.placing import NEVER, build_empty, parameter_shapes
from antiphon.models.shards import INDEX
from antiphon.models.talker.talker import Talker
from antiphon.models.thinker.thinker import Thinker
from antiphon.models.weight_norm import HIFT_NORMED, TALKER_NORMED, on_disk
from antiphon.pipeline.tiny_checkpoint.configs import write_configs
from antiphon.pipeline.tiny_checkpoint.json_file import write_json
from antiphon.pipeline.tiny_checkpoint.language import talker_values, thinker_values
from antiphon.pipeline.tiny_checkpoint.reference_voice import write_voice
from antiphon.pipeline.tiny_checkpoint.sound import TINY_HIFT, flow_values, hift_values
from antiphon.pipeline.tiny_checkpoint.stand_ins import write_speaker_encoder, write_speech_tokenizer
from antiphon.pipeline.tiny_checkpoint.values import Values, default_value, split_weight_norm
from antiphon.pipeline.tiny_checkpoint.vocabulary import Vocabulary, build_vocabulary, write_tokenizer

_NUM_UNUSED_ROWS = 32_000  # of the Llama's own embedding, which the real checkpoint carries too
_SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


def make_tiny(folder: Path, seed: int = 0) -> None:
    """Make a tiny checkpoint in *folder*, which must be absent or empty; it appears complete or not at all.

    Raises:
        CheckpointError: *folder* is not empty, or cannot be written.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CheckpointError(f"{folder}: already exists and is not an empty folder; name a new one")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        half_made = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        try:
            _write_files(half_made, seed)
            half_made.chmod(0o755)  # mkdtemp's own mode shuts everyone else out
            half_made.replace(folder)
        finally:
            shutil.rmtree(half_made, ignore_errors=True)
    except OSError as error:
        raise CheckpointError(f"{folder}: the checkpoint cannot be written there ({error.strerror})") from error


def fingerprint() -> str:
    """A short digest of everything that decides the bytes of a tiny checkpoint."""
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:12]


def _write_files(folder: Path, seed: int) -> None:
    vocabulary = build_vocabulary()
    write_configs(folder, vocabulary)
    write_tokenizer(folder, vocabulary)
    _write_shards(folder, seed, vocabulary)
    _write_token2wav(folder, seed)
    write_voice(folder / "assets" / "HT_ref_audio.wav", seed)


def _write_shards(folder: Path, seed: int, vocabulary: Vocabulary) -> None:
    config = load_model_config(folder)
    thinker_shapes = parameter_shapes(build_empty(partial(Thinker, config)))
    talker_shapes = parameter_shapes(build_empty(partial(Talker, config.talker)))
    talker = talker_values(seed, config, talker_shapes)
    unused_shapes = {
        "model.embed_tokens.weight": (_NUM_UNUSED_ROWS, config.talker.decoder.hidden_size),
        **{
            name.replace("projector_semantic", "projector_spk"): shape
            for name, shape in talker_shapes.items()
            if name.startswith("projector_semantic")
        },
    }
    talker |= {name: default_value(seed, name, shape) for name, shape in unused_shapes.items()}
    shards = (
        _stored(thinker_values(seed, config, thinker_shapes, vocabulary), NEVER, torch.bfloat16),
        _stored(talker, TALKER_NORMED, torch.bfloat16, prefix=TALKER_PREFIX),
    )
    weight_map: dict[str, str] = {}
    for file, tensors in zip(_SHARDS, shards, strict=True):
        save_file(tensors, folder / file, metadata={"format": "pt"})
        (folder / file).chmod(0o644)  # the library maps a file that only its owner may read
        weight_map |= dict.fromkeys(tensors, file)
    total_size = sum(value.nbytes for tensors in shards for value in tensors.values())
    index = {"metadata": {"total_size": total_size}, "weight_map": dict(sorted(weight_map.items()))}
    write_json(folder / INDEX, index)


def _write_token2wav(folder: Path, seed: int) -> None:
    stage = build_empty(partial(Code2Wav, read_flow_config(folder), TINY_HIFT))
    flow = flow_values(seed, parameter_shapes(stage.flow))
    hift = hift_values(seed, parameter_shapes(stage.hift))
    for file, tensors in (
        ("flow.pt", _stored(flow, NEVER, torch.float32)),
        ("hift.pt", _stored(hift, HIFT_NORMED, torch.float32)),
    ):
        # Given a path, torch names the archive after it if the path is ASCII: bytes would depend on the folder.
        with (folder / TOKEN2WAV / file).open("wb") as opened:
            torch.save(tensors, opened)
    write_speech_tokenizer(folder / TOKEN2WAV / "speech_tokenizer_v2_25hz.onnx", seed)
    write_speaker_encoder(folder / TOKEN2WAV / "campplus.onnx", seed)


def _stored(values: Values, normed: Pattern[str], dtype: torch.dtype, prefix: str = "") -> dict[str, Tensor]:
    """Parameters under the names, in the parts and in the type that the file has."""
    stored: dict[str, Tensor] = {}
    for name, value in values.items():
        names = on_disk(name, normed)
        parts = split_weight_norm(value) if len(names) == 2 else (value,)
        for stored_name, part in zip(names, parts, strict=True):
            stored[prefix + stored_name] = torch.from_numpy(part).to(dtype)
    return stored
