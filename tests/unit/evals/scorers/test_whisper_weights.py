import hashlib
import sys
from pathlib import Path

import pytest

from antiphon.core.errors import ConfigError
from antiphon.evals.scorers.whisper_weights import ShippedWeights, weights_folder

CONTENT = (b"first half ", b"second half")


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ShippedWeights:
    """Two modules that hold half a model each."""
    for place, content in enumerate(CONTENT, start=1):
        folder = tmp_path / "site" / f"made_weights_{place}" / "data"
        folder.mkdir(parents=True)
        (folder.parent / "__init__.py").write_text("")
        (folder / f"model.bin.{place}").write_bytes(content)
        for name in ("tokenizer.json", "vocabulary.txt", "config.json"):
            (folder / name).write_text(name)
    monkeypatch.syspath_prepend(tmp_path / "site")
    return ShippedWeights(
        "made",
        {"made-1": "made_weights_1", "made-2": "made_weights_2"},
        "data",
        ("model.bin.1", "model.bin.2"),
        hashlib.sha256(b"".join(CONTENT)).hexdigest()[:8],
    )


def test_parts_are_joined_once(parts: ShippedWeights, tmp_path: Path) -> None:
    folder = weights_folder(parts, tmp_path / "cache")
    assert (folder / "model.bin").read_bytes() == b"".join(CONTENT)
    assert (folder / "config.json").read_text() == "config.json"
    (tmp_path / "site" / "made_weights_1" / "data" / "model.bin.1").unlink()
    assert weights_folder(parts, tmp_path / "cache") == folder


def test_other_weights_than_those_that_were_tried_are_refused(parts: ShippedWeights, tmp_path: Path) -> None:
    (tmp_path / "site" / "made_weights_2" / "data" / "model.bin.2").write_bytes(b"changed")
    with pytest.raises(ConfigError, match="is not the made that was tried"):
        weights_folder(parts, tmp_path / "cache")
    with pytest.raises(ConfigError, match="is not the made that was tried"):  # and nothing half-made is taken later
        weights_folder(parts, tmp_path / "cache")


def test_packages_that_are_missing_are_named(parts: ShippedWeights) -> None:
    gone = ShippedWeights("x", {"not-there": "not_there_at_all", "made-1": "made_weights_1"}, "d", ("m",), "0")
    assert gone.missing() == ["not-there"]
    assert parts.missing() == []
    assert "not_there_at_all" not in sys.modules
