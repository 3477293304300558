"""What `LocalEngine` (threads) and `ProcessEngine` (worker processes) both are, to whoever submits requests."""

from collections.abc import Mapping
from typing import Protocol

from antiphon.config.deploy import DeployConfig
from antiphon.pipeline.omni_model import OmniModel
from antiphon.pipeline.orchestrator import Orchestrator, RequestHandle
from antiphon.pipeline.request import GenerationRequest
from antiphon.pipeline.stage import Report
from antiphon.pipeline.voice_book import VoiceBook


class OmniEngine(Protocol):
    """Answers many requests at once. `start` before the first, `close` after the last."""

    model: OmniModel  # sizes, tokenizer and folder; its weights may be elsewhere
    config: DeployConfig
    voices: VoiceBook

    @property
    def orchestrator(self) -> Orchestrator: ...

    def start(self, report: Report) -> None:
        """Make everything ready, telling *report*, and begin to answer."""
        ...

    def submit(self, request: GenerationRequest) -> RequestHandle:
        """Start a request. Raises as `Orchestrator.submit`."""
        ...

    def snapshot(self) -> Mapping[str, float]:
        """Gauges of the stages, and how often each optimisation was used or fell back."""
        ...

    def close(self) -> None:
        """Abort what runs, end all workers and threads."""
        ...
