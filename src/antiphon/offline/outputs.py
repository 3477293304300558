"""What `Omni.generate` returns: one output for the text and one for the speech of each request."""

from dataclasses import dataclass
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from antiphon.core.outputs import RequestMetrics


class MultimodalOutput(TypedDict, total=False):
    """Empty for text; for speech the samples, float32 [N] mono in [−1, 1], and their rate in Hz."""

    audio: NDArray[np.float32]
    sr: int


@dataclass(frozen=True, kw_only=True)
class CompletionOutput:
    """The result of one final stage. `token_ids` are text tokens, or codec ids (40 ms each) for speech."""

    index: int
    text: str
    token_ids: tuple[int, ...]
    finish_reason: str  # "stop" or "length"
    multimodal_output: MultimodalOutput


@dataclass(frozen=True, kw_only=True)
class OmniOutput:
    """One modality of one answered request. `outputs` has exactly one entry."""

    request_id: str
    prompt: str  # as the model saw it, media written as placeholders
    prompt_token_ids: tuple[int, ...]
    final_output_type: str  # "text" or "audio"
    outputs: tuple[CompletionOutput, ...]
    metrics: RequestMetrics
    finished: bool = True
