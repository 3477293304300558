"""What every replayed case may use: the recorded set, the model loaded from its checkpoint, and shared results."""

from collections.abc import Callable
from typing import Any, TypeVar

import torch

from antiphon.offline.verify.golden import GoldenSet
from antiphon.pipeline.build import build_omni_model
from antiphon.pipeline.omni_model import OmniModel

T = TypeVar("T")


class VerifyContext:
    """Loads the checkpoint once, in float32, and remembers replays that two recorded files share."""

    def __init__(self, golden: GoldenSet, device: torch.device) -> None:
        self.golden = golden
        self.device = device
        self._model: OmniModel | None = None
        self._shared: dict[str, Any] = {}

    @property
    def model(self) -> OmniModel:
        """The golden checkpoint through our own loader, float32."""
        if self._model is None:
            self._model = build_omni_model(self.golden.checkpoint, device=self.device, dtype=torch.float32)
        return self._model

    def once(self, key: str, make: Callable[[], T]) -> T:
        """Run *make* once per run for *key* and return its result every time."""
        if key not in self._shared:
            self._shared[key] = make()
        shared: T = self._shared[key]
        return shared
