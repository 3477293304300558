"""Cut a set of recorded vectors down to what the tests keep: every case and every input, a sample of each output.

    python scripts/thin_recorded_set.py FULL_SET tests/golden.tar.xz

Outputs keep every n-th value of the flattened tensor (at most 256 values), and the manifest says so (`stride`);
verify then compares those values. Which tensors are inputs, and so kept whole, is learnt by replaying the full set. The
one large tensor that the model never uses is left out; the test that unpacks the archive puts zeros in its place.
"""

import argparse
import json
import lzma
import shutil
import tarfile
import tempfile
from hashlib import sha256
from math import prod
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from antiphon.offline.verify.golden import GoldenSet
from antiphon.offline.verify.runner import run_verify

MAX_VALUES = 256
UNUSED_TENSOR = "tts.model.embed_tokens.weight"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="folder of the full set")
    parser.add_argument("target", type=Path, help="archive to write; it is replaced")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        thin(arguments.source, Path(folder) / "golden")
        _pack(Path(folder) / "golden", arguments.target)
    print(f"{arguments.target}: {arguments.target.stat().st_size / 1e6:.1f} MB")


def thin(source: Path, target: Path) -> None:
    golden = GoldenSet(source)
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("README.md"))
    for path in (target, *target.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    for result in run_verify(source, device=torch.device("cpu")):
        if not result.passed:
            raise SystemExit(f"{result.file} does not pass on the full set: {result.failures[0]}")
        if result.file.endswith(".safetensors"):
            _thin_file(golden, result.file, result.inputs, target / result.file)
            golden.entries[result.file]["sha256"] = sha256((target / result.file).read_bytes()).hexdigest()
    _drop_unused(target / "checkpoint")
    manifest = {**golden.manifest, "set": f"{golden.manifest['set']}, thinned"}
    (target / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")


def _thin_file(golden: GoldenSet, file: str, inputs: frozenset[str], target: Path) -> None:
    kept = {}
    for name in golden.tensor_names(file):
        tensor = golden.tensor(file, name)
        if name not in inputs and tensor.numel() > MAX_VALUES:
            # An even stride would see only some positions of an inner dimension.
            stride = -(-prod(tensor.shape) // MAX_VALUES) | 1
            golden.entries[file]["tensors"][name]["stride"] = stride
            tensor = tensor.flatten()[::stride]
        kept[name] = tensor.contiguous()
    save_file(kept, target)


def _drop_unused(checkpoint: Path) -> None:
    index = json.loads((checkpoint / "model.safetensors.index.json").read_text(encoding="utf-8"))
    shard = checkpoint / index["weight_map"][UNUSED_TENSOR]
    with safe_open(shard, framework="pt") as reader:
        kept = {name: reader.get_tensor(name) for name in reader.keys() if name != UNUSED_TENSOR}  # noqa: SIM118
    save_file(kept, shard)


def _pack(folder: Path, archive: Path) -> None:
    """The same folder gives the same bytes: names in order, no times, no owners."""

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.mtime = member.uid = member.gid = 0
        member.uname = member.gname = ""
        return member

    with (
        lzma.open(archive, "wb", preset=9 | lzma.PRESET_EXTREME) as packed,
        tarfile.open(fileobj=packed, mode="w") as tar,
    ):
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                tar.add(path, str(path.relative_to(folder)), filter=plain)


if __name__ == "__main__":
    main()
