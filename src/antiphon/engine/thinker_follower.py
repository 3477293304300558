"""The ranks after 0 of a tensor-parallel Thinker: they carry out what rank 0 launches and decide nothing."""

from collections.abc import Callable

import torch

from antiphon.engine.block_table import CutPlan
from antiphon.engine.counters import Counters
from antiphon.engine.device_stream import DeviceStream
from antiphon.engine.settings import ThinkerSettings
from antiphon.engine.thinker_model import TextModel, TextWeights
from antiphon.engine.thinker_runner import ThinkerRunner
from antiphon.engine.thinker_wire import StepReceiver
from antiphon.layers.parallel import ParallelGroup


class ThinkerFollower:
    """Built with the same model and settings as rank 0's `ThinkerEngine`; both warm up together."""

    def __init__(
        self,
        model: TextModel,
        settings: ThinkerSettings,
        *,
        device: torch.device,
        dtype: torch.dtype,
        counters: Counters,
        stream: DeviceStream,
        group: ParallelGroup,
    ) -> None:
        weights = TextWeights(model, device=device, group=group)
        self._runner = ThinkerRunner(weights, settings, dtype=dtype, counters=counters, stream=stream)
        hidden_size = weights.config.llm.hidden_size
        self._receiver = StepReceiver(group, hidden_size=hidden_size, stream=stream, dtype=dtype)

    def warm_up(self, report: Callable[[str], None]) -> None:
        self._runner.warm_up(report)

    def serve(self) -> None:
        """Carry out launches until rank 0 closes. Blocks."""
        while True:
            order = self._receiver.receive()
            if order is None:
                return
            if isinstance(order, CutPlan):
                self._runner.cut(order)
            else:
                self._runner.run(order)
