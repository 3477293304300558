"""One whole answer as one reply."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from antiphon.pipeline.events import AudioChunk, Finished
from antiphon.pipeline.speech import SPEECH_RATE_HZ
from antiphon.serving.audio_chunks import whole_file
from antiphon.serving.chat_request import ChatPlan
from antiphon.serving.chat_stream import AUDIO_LIFETIME_S, ReplyHead, new_audio_id
from antiphon.serving.errors import BAD_REQUEST, HttpError
from antiphon.serving.thoughts import ThoughtSplitter
from antiphon.serving.usage import finish_reason, stage_metrics, usage_of
from antiphon.wire.reply import Audio, AudioMetadata, Choice, Completion, Message

NO_AUDIO = "Audio generation completed but no audio was produced."


@dataclass
class CollectedAnswer:
    """What came of one request."""

    pieces: list[NDArray[np.float32]] = field(default_factory=list)  # each [N], 24 kHz
    finished: Finished | None = None

    def add(self, event: AudioChunk) -> None:
        self.pieces.append(event.samples)

    @property
    def samples(self) -> NDArray[np.float32]:
        return np.concatenate(self.pieces) if self.pieces else np.zeros(0, np.float32)


def whole_reply(plan: ChatPlan, head: ReplyHead, answer: CollectedAnswer, *, has_prompt_details: bool) -> Completion:
    """Text and speech in one choice. Encodes, so that long work is done off the event loop.

    Raises:
        HttpError: speech was asked for, and there is none.
    """
    finished = answer.finished
    assert finished is not None
    samples = answer.samples
    if plan.wants_audio and not len(samples):
        raise HttpError(BAD_REQUEST, NO_AUDIO)
    splitter = ThoughtSplitter()
    first, rest = splitter.push(finished.text), splitter.finish()
    said, thought = first.said + rest.said, first.thought + rest.thought
    message = Message(role="assistant", content=said if plan.wants_text else None)
    if thought and plan.wants_text:
        message.reasoning_content = thought
    choice = Choice(index=0, message=message, finish_reason=finish_reason(finished))
    if plan.wants_audio:
        message.audio = Audio(
            id=new_audio_id(),
            data=whole_file(plan.form, samples, SPEECH_RATE_HZ),
            expires_at=head.created + AUDIO_LIFETIME_S,
            # The reference leaves it empty; clients of OpenAI read the answer here.
            transcript=said if plan.openai_audio or not plan.wants_text else "",
        )
        choice.audio_metadata = AudioMetadata(
            format=plan.form_name, sample_rate_hz=SPEECH_RATE_HZ, frame_count=len(samples), channels=1
        )
    if plan.has_token_ids:
        choice.token_ids = list(finished.token_ids)
    reply = Completion(
        id=head.id,
        created=head.created,
        model=head.model,
        choices=[choice],
        usage=usage_of(finished, has_prompt_details=has_prompt_details),
    )
    if plan.has_token_ids:
        reply.prompt_token_ids = list(plan.request.prompt.ids)
    if plan.has_prompt_text:
        reply.prompt_text = plan.request.prompt.text
    if plan.has_metrics:
        output_type = "audio" if plan.wants_audio else "text"
        reply.metrics = stage_metrics(finished.metrics, speaks=plan.wants_audio, output_type=output_type)
    return reply
