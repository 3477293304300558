"""From the events of a finished request to what `Omni.generate` returns for it."""

from collections.abc import Iterator, Sequence

import numpy as np

from antiphon.offline.outputs import CompletionOutput, MultimodalOutput, OmniOutput
from antiphon.offline.prompt_input import ParsedPrompt
from antiphon.pipeline.events import AudioChunk, ChatEvent, Finished
from antiphon.pipeline.request import GenerationRequest
from antiphon.pipeline.speech import SPEECH_RATE_HZ


def outputs_of(parsed: ParsedPrompt, request: GenerationRequest, events: Sequence[ChatEvent]) -> Iterator[OmniOutput]:
    """The outputs of a finished request, as far as asked for: its text, its speech."""
    finished = events[-1]
    assert isinstance(finished, Finished)
    if parsed.wants_text:
        yield _output(request, finished, "text", {})
    if parsed.wants_audio:
        chunks = [event.samples for event in events if isinstance(event, AudioChunk)]
        audio = np.concatenate(chunks) if chunks else np.zeros(0, np.float32)
        yield _output(request, finished, "audio", {"audio": audio, "sr": SPEECH_RATE_HZ})


def _output(request: GenerationRequest, finished: Finished, kind: str, multimodal: MultimodalOutput) -> OmniOutput:
    is_text = kind == "text"
    reason = (
        finished.finish_reason if is_text or finished.speech_finish_reason is None else finished.speech_finish_reason
    )
    completion = CompletionOutput(
        index=0,
        text=finished.text if is_text else "",
        token_ids=finished.token_ids if is_text else finished.codec_ids,
        finish_reason=reason.value,
        multimodal_output=multimodal,
    )
    return OmniOutput(
        request_id=request.request_id,
        prompt=request.prompt.text,
        prompt_token_ids=tuple(request.prompt.ids),
        final_output_type=kind,
        outputs=(completion,),
        metrics=finished.metrics,
    )
