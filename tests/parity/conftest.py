"""What the oracles need to be importable."""

import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

import pytest

Oracle = Callable[[str], ModuleType]


@pytest.fixture(scope="session")
def stepaudio2() -> Oracle:
    """Imports a module of stepaudio2 under a stand-in for the package, whose own `__init__` wants CUDA."""
    spec = find_spec("stepaudio2")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    package = ModuleType("stepaudio2")
    package.__path__ = list(spec.submodule_search_locations)
    sys.modules.setdefault("stepaudio2", package)

    def load(name: str) -> ModuleType:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return import_module(f"stepaudio2.{name}")

    return load


@pytest.fixture(scope="session")
def s3tokenizer() -> ModuleType:
    """The s3tokenizer package. It imports torchaudio, which it needs only to read files, so an empty one will do."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setitem(sys.modules, "torchaudio", ModuleType("torchaudio"))
        return import_module("s3tokenizer")
