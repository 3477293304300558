"""Asks a judge model over an OpenAI-compatible URL."""

import asyncio
import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import aiohttp

from antiphon.bench.load import Sleep
from antiphon.core.errors import AntiphonError, ConfigError

_TEMPERATURE, _MAX_TOKENS, _TIMEOUT_S = 0.1, 1200, 600.0
_RETRIED = frozenset({408, 429, 500, 502, 503, 504})
_NUM_TRIES = 3
_RETRY_S = 1.0

Part = Mapping[str, object]


class JudgeError(AntiphonError):
    """The judge cannot be reached, or refuses what it is asked."""

    code = "judge_unavailable"


class VideoMode(Enum):
    """How the judge sees a whole video. The first needs a judge that may read this machine's files."""

    VIDEO_URL = "video_url"
    FRAMES = "frame-sample"


@dataclass(frozen=True, kw_only=True)
class JudgeSettings:
    base_url: str
    model: str
    api_key: str = "EMPTY"
    video_mode: VideoMode = VideoMode.VIDEO_URL
    fps: float = 2.0  # of the frames of a sentence's window

    def __post_init__(self) -> None:
        if not self.base_url.startswith(("http://", "https://")):
            raise ConfigError(f"--judge-base-url is {self.base_url!r}; give http://HOST:PORT")
        if not self.model:
            raise ConfigError("--judge-model is missing; name the model that judges")
        if not self.fps > 0:
            raise ConfigError(f"--judge-fps is {self.fps:g}; it must be above 0")

    @property
    def url(self) -> str:
        root = self.base_url.rstrip("/")
        return f"{root if root.endswith('/v1') else root + '/v1'}/chat/completions"


def parse_video_mode(name: str) -> VideoMode:
    try:
        return VideoMode(name)
    except ValueError:
        known = ", ".join(mode.value for mode in VideoMode)
        raise ConfigError(f"--judge-video-mode is {name!r}; known: {known}") from None


class Judge:
    """Answers one question at a time; any number of questions may be under way."""

    def __init__(self, http: aiohttp.ClientSession, settings: JudgeSettings, *, sleep: Sleep = asyncio.sleep) -> None:
        self.settings = settings
        self._http, self._sleep = http, sleep

    async def ask(self, prompt: str, media: Sequence[Part] = ()) -> str:
        """The text of the judge's reply.

        Raises:
            JudgeError: no reply after several tries, or a refusal.
        """
        settings = self.settings
        content: object = [*media, {"type": "text", "text": prompt}] if media else prompt
        body = {
            "model": settings.model,
            "messages": [{"role": "user", "content": content}],
            "temperature": _TEMPERATURE,
            "max_tokens": _MAX_TOKENS,
        }
        headers = {"Authorization": f"Bearer {settings.api_key}"}
        reason = ""
        for attempt in range(_NUM_TRIES):
            if attempt:
                await self._sleep(_RETRY_S * attempt)
            try:
                timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
                async with self._http.post(settings.url, json=body, headers=headers, timeout=timeout) as response:
                    if response.status == 200:
                        return _reply_text(await response.json(content_type=None))
                    reason = f"answers {response.status}: {(await response.text(errors='replace'))[:200]}"
                    if response.status not in _RETRIED:
                        break
            except (aiohttp.ClientError, asyncio.TimeoutError, ValueError) as error:
                reason = str(error) or type(error).__name__
        raise JudgeError(f"judge {settings.url}: {reason}")


def image_part(jpeg: bytes) -> Part:
    return {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{base64.b64encode(jpeg).decode()}"}}


def video_part(path: Path) -> Part:
    return {"type": "video_url", "video_url": {"url": path.resolve().as_uri()}}


def _reply_text(document: object) -> str:
    choices = document.get("choices") if isinstance(document, dict) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, dict) else None
    text = message.get("content") if isinstance(message, dict) else None
    if not isinstance(text, str):
        raise ValueError("its answer holds no text")
    return text
