"""What is in a checkpoint folder: parts with parameters and bytes, and every name that is missing or out of place."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch

from antiphon.audio.voice_features import SPEAKER_FILE, TOKENIZER_FILE
from antiphon.config.checkpoint_files import TOKEN2WAV, load_image_config, load_model_config
from antiphon.config.flow_files import read_flow_config
from antiphon.core.errors import CheckpointError
from antiphon.models.loading import UNUSED, open_token2wav, talker_filler, thinker_filler
from antiphon.models.shards import Shards
from antiphon.models.tensor_names import NameAccount, StoredTensor, account
from antiphon.models.torch_files import headers
from antiphon.prompt.tokenizer import Tokenizer

_META = torch.device("meta")
# Prefix of the stored names → part; the unused tensors of the Talker are a part of their own.
_PARTS = (
    ("llm.", "thinker: language model"),
    ("vpm.", "thinker: vision encoder"),
    ("resampler.", "thinker: resampler"),
    ("apm.", "thinker: audio encoder"),
    ("audio_projection_layer.", "thinker: audio projection"),
    ("tts.", "talker"),
)
_UNUSED_PART, _OTHER_PART = "never used", "unknown"
_VOICE_FILES = (
    Path("assets", "HT_ref_audio.wav"),
    TOKEN2WAV / TOKENIZER_FILE,
    TOKEN2WAV / SPEAKER_FILE,
)


@dataclass(frozen=True)
class Part:
    """One line of the table."""

    name: str
    num_tensors: int
    num_parameters: int
    num_bytes: int
    dtypes: tuple[str, ...]  # the commonest first


@dataclass(frozen=True)
class CheckpointReport:
    """What `inspect_checkpoint` found. `problems` are files that are absent or cannot be used, one line each."""

    folder: Path
    parts: tuple[Part, ...]
    accounts: tuple[NameAccount, ...]
    problems: tuple[str, ...]

    @property
    def is_complete(self) -> bool:
        return not self.problems and all(entry.is_clean for entry in self.accounts)


def inspect_checkpoint(folder: Path) -> CheckpointReport:
    """Read the configuration and the headers of all weights of *folder*; no weight is loaded.

    Raises:
        CheckpointError: there is no such folder, or its config.json or safetensors files cannot be used at all.
    """
    config = load_model_config(folder)
    shards = Shards(folder)
    expected = {
        **thinker_filler(config, _META, torch.float32)[1].expected,
        **talker_filler(config, _META, torch.float32)[1].expected,
    }
    used = {name: entry for name, entry in shards.headers.items() if name not in UNUSED}
    accounts = [account("safetensors", expected, used)]
    parts = _safetensors_parts(shards)
    problems: list[str] = []
    try:
        token2wav = open_token2wav(folder, read_flow_config(folder), _META)
    except CheckpointError as error:
        problems.append(str(error))
    else:
        parts.append(_part("code2wav: flow", headers(token2wav.flow).values()))
        parts.append(_part("code2wav: vocoder", headers(token2wav.hift).values()))
        accounts += token2wav.accounts
    for check in (load_image_config, Tokenizer.load):
        try:
            check(folder)
        except CheckpointError as error:
            problems.append(str(error))
    problems += [
        f"{folder / file}: no such file; reference voices need it"
        for file in _VOICE_FILES
        if not (folder / file).is_file()
    ]
    return CheckpointReport(folder, tuple(parts), tuple(accounts), tuple(problems))


def _safetensors_parts(shards: Shards) -> list[Part]:
    members: dict[str, list[StoredTensor]] = {name: [] for _, name in _PARTS}
    for name, entry in shards.headers.items():
        part = next((part for prefix, part in _PARTS if name.startswith(prefix)), _OTHER_PART)
        members.setdefault(_UNUSED_PART if name in UNUSED else part, []).append(entry)
    return [_part(name, entries) for name, entries in members.items()]


def _part(name: str, entries: Iterable[StoredTensor]) -> Part:
    listed = list(entries)
    dtypes = Counter(str(entry.dtype).removeprefix("torch.") for entry in listed)
    return Part(
        name,
        len(listed),
        sum(entry.num_values for entry in listed),
        sum(entry.num_bytes for entry in listed),
        tuple(dtype for dtype, _ in dtypes.most_common()),
    )
