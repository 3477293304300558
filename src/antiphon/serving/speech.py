"""`POST /v1/audio/speech`: a given text in a reference voice.

The model speaks what its Thinker has written. So the text is put where the answer would stand, behind the request to
read it aloud; its tokens are forwarded, none is drawn, and their hidden rows condition the Talker ten at a time. What
is spoken is therefore the text, word for word.
"""

import asyncio
import secrets
from base64 import b64encode
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from antiphon.audio.decode import SAMPLE_RATE_HZ, load_audio
from antiphon.audio.formats import FORMATS, SpeechFormat, encode_file, open_stream
from antiphon.core.errors import PromptError
from antiphon.core.handoff import Handoff
from antiphon.core.sampling import MAX_SEED, SamplingParams
from antiphon.pipeline.async_events import events_of
from antiphon.pipeline.events import AudioChunk, Finished, RequestEvent, TextDelta
from antiphon.pipeline.request import GenerationRequest
from antiphon.pipeline.speech import SPEECH_RATE_HZ
from antiphon.prompt.chat_prompt import ChatPrompt, build_chat_prompt
from antiphon.prompt.messages import AudioPart, Message, TextPart
from antiphon.prompt.system_prompt import system_prompt
from antiphon.serving.chat import chain_first, first_event, raise_end, watched
from antiphon.serving.context import REQUEST_ID
from antiphon.serving.conversation import DecodePool
from antiphon.serving.errors import BAD_REQUEST, HttpError, error_document, problem_of
from antiphon.serving.http import read_json_body, while_connected
from antiphon.serving.port import Pipeline
from antiphon.serving.served_model import ServedModel
from antiphon.serving.settings import ServeSettings
from antiphon.serving.sse import DONE, HEADERS, LiveResponse, event, json_event
from antiphon.serving.voices import VoiceReader
from antiphon.serving.watching import Watching
from antiphon.wire.parse import parse
from antiphon.wire.speech import SpeechDelta, SpeechDone, SpeechRequest, SpeechUsage

READ_ALOUD = "Please read the text below."
CODES_PER_TOKEN = 40  # 1.6 s, four times what speech takes: where a voice that finds no end is cut off
MIN_CODES = 250


@dataclass(frozen=True)
class SpeechEndpoint:
    """Speaks texts with *pipeline*. *default_voice*: the recording of the default voice, if there is one."""

    pipeline: Pipeline
    model: ServedModel
    settings: ServeSettings
    voices: VoiceReader
    pool: DecodePool
    watching: Watching
    default_voice: Path | None

    async def __call__(self, request: Request) -> Response:
        body = parse(SpeechRequest, await read_json_body(request, self.settings.max_body_bytes))
        name = f"speech-{getattr(request.state, REQUEST_ID)}-{secrets.token_hex(4)}"
        generation = await while_connected(request.receive, self._plan(body, name))
        form = FORMATS[body.response_format]
        watch = self.watching.watch(request, name, speaks=True, is_streamed=body.stream is not False)
        try:
            events = watched(events_of(self.pipeline.submit(generation)), watch)
            if body.stream is False and body.stream_format != "sse":
                return await while_connected(request.receive, self._whole(form, events))
            first = await while_connected(request.receive, first_event(events))
        except BaseException:
            watch.fail("client_disconnect")
            raise
        is_sse = body.stream_format == "sse"
        pieces = self._pieces(form, first, events, is_sse=is_sse, name=name)
        return LiveResponse(
            pieces,
            media_type="text/event-stream" if is_sse else form.media_type,
            send_timeout_s=self.settings.send_timeout_s,
            headers={**HEADERS, "X-Sample-Rate": str(SPEECH_RATE_HZ)},
        )

    async def _plan(self, body: SpeechRequest, name: str) -> GenerationRequest:
        self.model.require(body.model)
        if not self.model.has_speech:
            raise HttpError(BAD_REQUEST, "this server was started without speech")
        if body.speed not in (None, 1.0):
            raise HttpError(
                BAD_REQUEST, f"speed is {body.speed}; the model has one pace, so only 1 is possible", param="speed"
            )
        given = tuple(await self.pool.run(partial(self.model.tokenizer.encode_plain, body.input.strip())))
        if not given:
            raise PromptError("input: there is nothing to read aloud")
        content = await self.voices.fetch(body.ref_audio)
        voice = await self.voices.prepare(content)
        prompt = await self.pool.run(partial(self._prompt, body.input.strip(), content or self.default_voice))
        return GenerationRequest(
            request_id=name,
            prompt=prompt,
            sampling=self._sampling(body, len(given)),
            voice=voice,
            handoff=Handoff.STREAM,
            given=given,
        )

    def _prompt(self, text: str, recording: bytes | Path | None) -> ChatPrompt:
        """The request to read aloud, in the words the model was trained with."""
        clip = None if recording is None else load_audio(recording)[: round(self.model.max_voice_s * SAMPLE_RATE_HZ)]
        system = () if clip is None else (system_prompt("voice_cloning", "en", AudioPart(clip)),)
        return build_chat_prompt(
            [*system, Message("user", (TextPart(f"{READ_ALOUD}\n{text}"),))],
            self.model.tokenizer,
            self.model.image_config,
            join="\n",
            use_tts_template=True,
            enable_thinking=False,
            native_marks=True,
            pool_step=self.model.pool_step,
        )

    def _sampling(self, body: SpeechRequest, num_given: int) -> tuple[SamplingParams, SamplingParams, SamplingParams]:
        thinker, talker, code2wav = self.model.sampling
        if body.seed is not None and not 0 <= body.seed <= MAX_SEED:
            raise HttpError(BAD_REQUEST, f"seed is {body.seed}; it must be from 0 to {MAX_SEED}", param="seed")
        most = body.max_new_tokens or max(MIN_CODES, num_given * CODES_PER_TOKEN)
        return (
            replace(thinker, max_tokens=num_given, min_tokens=0, stop=(), stop_token_ids=()),
            replace(
                talker,
                max_tokens=most,
                min_tokens=min(talker.min_tokens, most),
                seed=talker.seed if body.seed is None else body.seed,
            ),
            replace(code2wav, seed=code2wav.seed if body.seed is None else body.seed),
        )

    async def _whole(self, form: SpeechFormat, events: AsyncGenerator[RequestEvent, None]) -> Response:
        pieces = [np.zeros(0, np.float32)]
        async with aclosing(events):
            async for item in events:
                if isinstance(item, AudioChunk):
                    pieces.append(item.samples)
                elif not isinstance(item, (TextDelta, Finished)):
                    raise_end(item)
        content = await asyncio.to_thread(encode_file, form, np.concatenate(pieces), SPEECH_RATE_HZ)
        return Response(content, media_type=form.media_type)

    async def _pieces(
        self,
        form: SpeechFormat,
        first: RequestEvent,
        events: AsyncGenerator[RequestEvent, None],
        *,
        is_sse: bool,
        name: str,
    ) -> AsyncIterator[bytes]:
        encoder = open_stream(form, SPEECH_RATE_HZ)
        end = "closed"
        try:
            async with aclosing(events):
                async for item in chain_first(first, events):
                    if isinstance(item, AudioChunk):
                        piece = await asyncio.to_thread(encoder.push, item.samples)
                        if piece:
                            yield _delta(piece) if is_sse else piece
                    elif isinstance(item, Finished):
                        rest = await asyncio.to_thread(encoder.finish)
                        if rest:
                            yield _delta(rest) if is_sse else rest
                        if is_sse:
                            yield _done(item) + DONE
                        end = ""
                    elif not isinstance(item, TextDelta):
                        raise_end(item)
        except Exception as error:  # noqa: BLE001 - the HTTP boundary: the status is sent, so the stream ends early
            end = "error"
            document = error_document(problem_of(error), name)
            if is_sse:
                yield json_event(document) + DONE
        finally:
            self._count(end)

    def _count(self, aborted_by: str) -> None:
        families = self.watching.families
        if families is None:
            return
        if aborted_by:
            families.of(families.speech_stream_aborted, aborted_by).inc()
        else:
            families.of(families.speech_stream_completed).inc()


def _delta(piece: bytes) -> bytes:
    return event(SpeechDelta(audio=b64encode(piece).decode()).model_dump_json().encode())


def _done(finished: Finished) -> bytes:
    num_in, num_out = finished.metrics.num_prompt_tokens, finished.metrics.num_codec_frames
    usage = SpeechUsage(input_tokens=num_in, output_tokens=num_out, total_tokens=num_in + num_out)
    return event(SpeechDone(usage=usage).model_dump_json().encode())
