"""The pipeline as the server sees it."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from antiphon.pipeline.eager.voices import VoiceSource
from antiphon.pipeline.health import Health
from antiphon.pipeline.orchestrator import RequestHandle
from antiphon.pipeline.request import GenerationRequest
from antiphon.pipeline.stage_facts import StageGauges, StageObservation
from antiphon.pipeline.voice_book import PreparedVoice


class Voices(Protocol):
    """Makes voices ready; `VoiceBook` does."""

    def prepare(self, source: VoiceSource | None) -> PreparedVoice:
        """The voice of a recording; None is the default one. Raises MediaError."""
        ...


class Pipeline(Protocol):
    """Answers requests. All calls return at once and may come from any thread."""

    def submit(self, request: GenerationRequest) -> RequestHandle:
        """Start a request. Raises AntiphonError if it cannot be taken."""
        ...

    def health(self) -> Health:
        """What can be said truthfully now."""
        ...

    def counters(self) -> Mapping[str, float]:
        """Events that are counted: uses and fall-backs of fast paths."""
        ...

    def gauges(self) -> Mapping[str, float]:
        """States: blocks, slots, queues."""
        ...

    def stage_gauges(self) -> Sequence[StageGauges]:
        """The same of each replica of each stage."""
        ...

    def take_observations(self) -> Sequence[StageObservation]:
        """What histograms are made of: all that was noted since the last call."""
        ...

    def close(self) -> None:
        """End every request and every process."""
        ...
