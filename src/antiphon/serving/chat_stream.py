"""Turns the events of one answer into chunks on the wire. No I/O: what comes in and what goes out are values."""

import secrets
from dataclasses import dataclass

from antiphon.pipeline.events import AudioChunk, Finished, TextDelta
from antiphon.pipeline.speech import SPEECH_RATE_HZ
from antiphon.serving.audio_chunks import JoinedPieces, whole_file
from antiphon.serving.chat_request import ChatPlan
from antiphon.serving.thoughts import ThoughtSplitter
from antiphon.serving.usage import finish_reason, stage_metrics, usage_of
from antiphon.wire.reply import AudioDelta, AudioMetadata, ChunkChoice, CompletionChunk, Delta, Usage

AUDIO_LIFETIME_S = 24 * 3600


@dataclass(frozen=True)
class ReplyHead:
    """What every chunk of an answer repeats."""

    id: str
    created: int
    model: str


class ChatStream:
    """The chunks of one answer, in order: a role, then text and speech as they come, one finish reason, perhaps usage.

    In vLLM-Omni's shape every piece of speech is a file of its own. In OpenAI's the pieces are one file.
    """

    def __init__(self, plan: ChatPlan, head: ReplyHead, *, has_prompt_details: bool) -> None:
        self._plan = plan
        self._head = head
        self._has_prompt_details = has_prompt_details
        self._thoughts = ThoughtSplitter()
        self._joined = JoinedPieces(plan.form, SPEECH_RATE_HZ) if plan.wants_audio and plan.openai_audio else None
        self._audio_id: str | None = None
        self._num_tokens = 0

    def start(self) -> list[CompletionChunk]:
        """The chunk with the role."""
        modality = "text" if self._plan.wants_text else "audio"
        chunk = self._chunk(Delta(role="assistant", content=""), modality)
        if self._plan.has_token_ids:
            chunk.prompt_token_ids = list(self._plan.request.prompt.ids)
        return [chunk]

    def text(self, event: TextDelta) -> list[CompletionChunk]:
        """New text."""
        split = self._thoughts.push(event.text)
        self._num_tokens = event.num_tokens
        return self._texts(split.said, split.thought)

    def audio(self, event: AudioChunk) -> list[CompletionChunk]:
        """New samples; encodes, so that long work is done off the event loop."""
        if self._joined is not None:
            piece = self._joined.push(event.samples)
            return [self._chunk(Delta(audio=self._audio_delta(data=piece)), "audio")] if piece else []
        chunk = self._chunk(
            Delta(role="assistant", content=whole_file(self._plan.form, event.samples, event.sample_rate_hz)), "audio"
        )
        chunk.choices[0].audio_metadata = AudioMetadata(
            format=self._plan.form_name,
            sample_rate_hz=event.sample_rate_hz,
            frame_count=len(event.samples),
            channels=1,
        )
        return [chunk]

    def finish(self, event: Finished) -> list[CompletionChunk]:
        """The end."""
        plan = self._plan
        left = self._thoughts.finish()
        chunks = self._texts(left.said, left.thought)
        delta = Delta()
        if self._joined is not None and self._audio_id is not None:
            delta.audio = AudioDelta(data=self._joined.finish(), expires_at=self._head.created + AUDIO_LIFETIME_S)
        modality = "audio" if plan.wants_audio else "text"
        last = self._chunk(delta, modality)
        last.choices[0].finish_reason = finish_reason(event)
        usage = usage_of(event, has_prompt_details=self._has_prompt_details)
        metrics = (
            stage_metrics(event.metrics, speaks=plan.wants_audio, output_type=modality) if plan.has_metrics else None
        )
        chunks.append(last)
        if plan.has_usage:
            end = self._bare()
            end.usage = usage
            chunks.append(end)
        if metrics is not None:
            chunks[-1].metrics = metrics
        return chunks

    def _texts(self, said: str, thought: str) -> list[CompletionChunk]:
        chunks = []
        if thought and self._plan.wants_text:
            chunks.append(self._chunk(Delta(reasoning_content=thought), "text"))
        if said:
            delta = Delta()
            if self._plan.wants_text:
                delta.content = said
            if self._joined is not None:
                delta.audio = self._audio_delta(transcript=said)
            if self._plan.wants_text or self._joined is not None:
                chunks.append(self._chunk(delta, "text"))
        if self._plan.has_running_usage:
            num_prompt = len(self._plan.request.prompt.ids)
            for chunk in chunks:
                chunk.usage = Usage(
                    prompt_tokens=num_prompt,
                    completion_tokens=self._num_tokens,
                    total_tokens=num_prompt + self._num_tokens,
                )
        return chunks

    def _audio_delta(self, *, data: str | None = None, transcript: str | None = None) -> AudioDelta:
        """SDKs join the strings of deltas, so the id is sent once."""
        fields: dict[str, str] = {}
        if self._audio_id is None:
            self._audio_id = new_audio_id()
            fields["id"] = self._audio_id
        if data is not None:
            fields["data"] = data
        if transcript is not None:
            fields["transcript"] = transcript
        return AudioDelta.model_validate(fields)

    def _chunk(self, delta: Delta, modality: str) -> CompletionChunk:
        chunk = self._bare()
        chunk.choices = [ChunkChoice(index=0, delta=delta, finish_reason=None)]
        chunk.modality = "audio" if modality == "audio" else "text"
        return chunk

    def _bare(self) -> CompletionChunk:
        return CompletionChunk(id=self._head.id, created=self._head.created, model=self._head.model, choices=[])


def new_audio_id() -> str:
    return f"audio-{secrets.token_hex(8)}"
