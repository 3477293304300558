"""The messages of a request as the prompt builder takes them: media are counted, fetched and decoded."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from antiphon.audio.decode import load_audio
from antiphon.audio.image import load_image
from antiphon.config.deploy import MediaLimits
from antiphon.core.errors import CapacityError, MediaError, PromptError
from antiphon.prompt.media_parts import pad_for_merging, video_parts
from antiphon.prompt.messages import AudioPart, ImagePart, Message, Part, TextPart, ToolCall
from antiphon.prompt.video import MAX_MOMENTS
from antiphon.serving.media_fetch import MediaFetcher
from antiphon.serving.media_url import decode_base64
from antiphon.wire.chat import ChatMessage
from antiphon.wire.content import (
    AudioContent,
    ContentPart,
    ImageContent,
    InputAudioContent,
    TextContent,
    VideoContent,
)

T = TypeVar("T")

DECODE_THREADS = 4
MAX_WAITING = 256  # media that wait for a thread
DECODE_TIMEOUT_S = 60.0
MAX_REQUEST_MEDIA_BYTES = 256 * 2**20

_KINDS = {ImageContent: "image", AudioContent: "audio", InputAudioContent: "audio", VideoContent: "video"}


@dataclass(frozen=True, kw_only=True)
class MediaRules:
    """How this request's media are read."""

    limits: MediaLimits
    use_audio_in_video: bool = True
    max_frames: int = MAX_MOMENTS


class DecodePool:
    """A few threads outside the event loop, and a bound on what may wait for them."""

    def __init__(self, *, num_threads: int = DECODE_THREADS, max_waiting: int = MAX_WAITING) -> None:
        self._threads = ThreadPoolExecutor(num_threads, thread_name_prefix="antiphon-media")
        self._max_waiting = max_waiting
        self.num_waiting = 0

    async def run(self, work: Callable[[], T]) -> T:
        """Do *work* on a thread.

        Raises:
            CapacityError: too much waits already.
            MediaError: it took longer than a minute.
        """
        if self.num_waiting >= self._max_waiting:
            raise CapacityError("too many media wait to be decoded; try again later")
        self.num_waiting += 1
        try:
            future = asyncio.get_running_loop().run_in_executor(self._threads, work)
            return await asyncio.wait_for(future, DECODE_TIMEOUT_S)
        except asyncio.TimeoutError:
            raise MediaError(f"a medium could not be decoded within {DECODE_TIMEOUT_S:g} s") from None
        finally:
            self.num_waiting -= 1

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


class ConversationReader:
    """Reads the messages of requests."""

    def __init__(self, fetcher: MediaFetcher, pool: DecodePool) -> None:
        self._fetcher = fetcher
        self._pool = pool

    async def read(self, messages: Sequence[ChatMessage], rules: MediaRules) -> tuple[Message, ...]:
        """Decode everything in *messages*.

        Raises:
            PromptError: an empty message, none to answer, or more media than are accepted.
            MediaError: a medium that cannot be had or used.
        """
        _check_counts(messages, rules.limits)
        if all(message.role in ("system", "developer") for message in messages):
            raise PromptError("messages: there is no user message to answer")
        budget = _Budget()
        read = [await self._message(place, message, rules, budget) for place, message in enumerate(messages)]
        return tuple(pad_for_merging(message) for message in read)

    async def _message(self, place: int, message: ChatMessage, rules: MediaRules, budget: "_Budget") -> Message:
        role = "system" if message.role == "developer" else message.role
        calls = tuple(ToolCall(call.function.name, call.function.arguments) for call in message.tool_calls or ())
        where = f"messages[{place}].content"
        if message.content is None or message.content == []:
            if not calls:
                raise PromptError(f"{where}: must be a string or a list of at least one part")
            return Message(role, (), calls)
        if isinstance(message.content, str):
            return Message(role, (TextPart(message.content),), calls)
        parts: list[Part] = []
        for number, part in enumerate(message.content):
            try:
                parts += await self._part(part, rules, budget)
            except MediaError as error:
                raise MediaError(f"{where}[{number}]: {error}") from None
        return Message(role, tuple(parts), calls)

    async def _part(self, part: ContentPart, rules: MediaRules, budget: "_Budget") -> tuple[Part, ...]:
        if isinstance(part, TextContent):
            return (TextPart(part.text),)
        if isinstance(part, ImageContent):
            content = await self._bytes(part.image_url.url, budget)
            return (ImagePart(await self._pool.run(partial(load_image, content))),)
        if isinstance(part, VideoContent):
            content = await self._bytes(part.video_url.url, budget)
            decode = partial(video_parts, content, with_audio=rules.use_audio_in_video, max_frames=rules.max_frames)
            return await self._pool.run(decode)
        if isinstance(part, AudioContent):
            content = await self._bytes(part.audio_url.url, budget)
        else:
            content = budget.take(decode_base64(part.input_audio.data, "input_audio.data"))
        return (AudioPart(await self._pool.run(partial(load_audio, content))),)

    async def _bytes(self, url: str, budget: "_Budget") -> bytes:
        return budget.take(await self._fetcher.fetch(url))


class _Budget:
    """Bytes of media that one request may still bring."""

    def __init__(self) -> None:
        self._left = MAX_REQUEST_MEDIA_BYTES

    def take(self, content: bytes) -> bytes:
        self._left -= len(content)
        if self._left < 0:
            raise MediaError(f"the request's media exceed {MAX_REQUEST_MEDIA_BYTES // 2**20} MiB in all")
        return content


def _check_counts(messages: Sequence[ChatMessage], limits: MediaLimits) -> None:
    counts = Counter(
        _KINDS[type(part)]
        for message in messages
        if isinstance(message.content, list)
        for part in message.content
        if not isinstance(part, TextContent)
    )
    for kind, limit in (("image", limits.image), ("audio", limits.audio), ("video", limits.video)):
        if limit is not None and counts[kind] > limit:
            raise PromptError(f"the request has {counts[kind]} {kind} inputs; at most {limit} are accepted")
