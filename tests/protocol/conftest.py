"""The application in process, with a pipeline that says what a test wrote down."""

import asyncio
import base64
import io
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import httpx
import numpy as np
import pytest
from PIL import Image

from antiphon.audio.voice import VoiceFeatures
from antiphon.config.checkpoint_files import shipped_image_config
from antiphon.config.deploy import MediaLimits, VideoIO
from antiphon.core.errors import AntiphonError
from antiphon.core.outputs import FinishReason, RequestMetrics
from antiphon.core.sampling import DEFAULT_STAGE_PARAMS
from antiphon.pipeline.eager.voices import VoiceSource
from antiphon.pipeline.events import Aborted, AudioChunk, Failed, Finished, TextDelta
from antiphon.pipeline.health import Health, StageHealth
from antiphon.pipeline.orchestrator import RequestHandle
from antiphon.pipeline.output_queue import OutputQueue
from antiphon.pipeline.request import GenerationRequest
from antiphon.pipeline.stage_facts import StageGauges, StageObservation
from antiphon.pipeline.voice_book import PreparedVoice, prepared
from antiphon.prompt.tokenizer import Tokenizer
from antiphon.serving.app import Services, create_app
from antiphon.serving.media_fetch import MediaFetcher, MediaPolicy
from antiphon.serving.served_model import ServedModel
from antiphon.serving.settings import ServeSettings

RATE_HZ = 24_000
Event = TextDelta | AudioChunk
T = TypeVar("T")


def speech(num_samples: int = 960, value: float = 0.25) -> AudioChunk:
    return AudioChunk(np.full(num_samples, value, np.float32), RATE_HZ)


@dataclass
class FakePipeline:
    """Says `events` and then ends: with `end`, or finished. With `holds` it never ends by itself."""

    events: list[Event] = field(
        default_factory=lambda: [TextDelta("Hello", 1), speech(), TextDelta(" you.", 2), speech(500)]
    )
    finish_reason: FinishReason = FinishReason.STOP
    speech_finish_reason: FinishReason | None = FinishReason.STOP
    end: Failed | Aborted | None = None
    refusal: AntiphonError | None = None
    holds: bool = False
    is_ready: bool = True
    requests: list[GenerationRequest] = field(default_factory=list)
    aborted: list[str] = field(default_factory=list)
    outputs: dict[str, OutputQueue] = field(default_factory=dict)
    is_closed: bool = False
    stages: list[StageGauges] = field(default_factory=list)
    observed: list[StageObservation] = field(default_factory=list)

    def submit(self, request: GenerationRequest) -> RequestHandle:
        if self.refusal is not None:
            raise self.refusal
        self.requests.append(request)
        output = self.outputs[request.request_id] = OutputQueue()
        for event in self.events:
            if isinstance(event, TextDelta) or request.voice is not None:
                output.push(event)
        if not self.holds:
            output.end(self.end or self._finished(request))
        return RequestHandle(request.request_id, output, self.abort)

    def abort(self, request_id: str) -> None:
        if self.outputs[request_id].end(Aborted()):
            self.aborted.append(request_id)

    def _finished(self, request: GenerationRequest) -> Finished:
        chunks = [event.samples for event in self.events if isinstance(event, AudioChunk)]
        num_samples = sum(map(len, chunks)) if request.voice is not None else 0
        texts = [event.text for event in self.events if isinstance(event, TextDelta)]
        return Finished(
            text="".join(texts),
            token_ids=tuple(range(len(texts) + 1)),
            finish_reason=self.finish_reason,
            codec_ids=(1,) * (num_samples // 960),
            speech_finish_reason=self.speech_finish_reason if num_samples else None,
            metrics=RequestMetrics(
                num_prompt_tokens=len(request.prompt.ids),
                num_text_tokens=len(texts) + 1,
                num_codec_frames=num_samples // 960,
                audio_duration_s=num_samples / RATE_HZ,
                time_to_first_text_s=0.01,
                text_finished_s=0.02,
                time_to_first_audio_s=0.03,
                total_s=0.05,
            ),
        )

    def health(self) -> Health:
        ready = int(self.is_ready)
        stages = tuple(
            StageHealth(name=name, num_replicas=1, num_ready=ready, num_restarting=0)
            for name in ("thinker", "talker", "code2wav")
        )
        return Health(is_live=self.is_ready, is_ready=self.is_ready, is_draining=False, stages=stages, workers=())

    def counters(self) -> Mapping[str, float]:
        return {"talker_step_window": 3}

    def gauges(self) -> Mapping[str, float]:
        return {"thinker.blocks_used": 7, "requests_waiting": 2}

    def stage_gauges(self) -> Sequence[StageGauges]:
        return self.stages

    def take_observations(self) -> Sequence[StageObservation]:
        taken, self.observed = self.observed, []
        return taken

    def close(self) -> None:
        self.is_closed = True


class FakeVoices:
    """Every recording is a voice of its own, by its loudest sample."""

    def __init__(self) -> None:
        self.sources: list[VoiceSource | None] = []

    def prepare(self, source: VoiceSource | None) -> PreparedVoice:
        self.sources.append(source)
        level = 0.0 if source is None else float(np.abs(source[0]).max())  # type: ignore[arg-type]
        return prepared(
            VoiceFeatures(
                codes=np.zeros(2, np.int64), xvector=np.full(4, level, np.float32), mel=np.zeros((4, 80), np.float32)
            )
        )


@dataclass
class Server:
    """What a test talks to."""

    pipeline: FakePipeline
    voices: FakeVoices
    services: Services

    @property
    def app(self) -> Any:
        return create_app(self.services)

    def configure(self, **changes: object) -> None:
        """Change settings of the server."""
        self.services = replace(self.services, settings=replace(self.services.settings, **changes))  # type: ignore[arg-type]

    def serve(self, **changes: object) -> None:
        """Change facts of the model."""
        self.services = replace(self.services, model=replace(self.services.model, **changes))  # type: ignore[arg-type]

    def converse(self, talk: Callable[[httpx.AsyncClient], Awaitable[T]]) -> T:
        """Let *talk* make several requests to one application."""

        async def run() -> T:
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
                return await talk(client)

        return asyncio.run(run())

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=True)
            async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
                return await client.request(method, path, **options)

        return asyncio.run(send())

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.request("GET", path, **options)

    def chat(
        self, content: object = "Hi", headers: Mapping[str, str] | None = None, **fields: object
    ) -> httpx.Response:
        """One user message (or `messages`), with more fields of the body."""
        body = {"messages": [{"role": "user", "content": content}], **fields}
        # Python writes NaN, which httpx refuses to.
        return self.request(
            "POST",
            "/v1/chat/completions",
            content=json.dumps(body),
            headers={"Content-Type": "application/json", **(headers or {})},
        )

    def stream(self, content: object = "Hi", **fields: object) -> list[dict[str, Any]]:
        """The chunks of a streamed answer; the last line must be [DONE]."""
        response = self.chat(content, stream=True, **fields)
        assert response.status_code == 200, response.text
        assert response.headers["content-type"].startswith("text/event-stream")
        return self.events(response.text)

    @staticmethod
    def speech(num_samples: int = 960, value: float = 0.25) -> AudioChunk:
        return speech(num_samples, value)

    @staticmethod
    def events(text: str) -> list[dict[str, Any]]:
        """The documents of a stream of events, which must end with one [DONE]."""
        lines = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
        assert lines[-1] == "[DONE]"
        assert lines.count("[DONE]") == 1
        return [json.loads(line) for line in lines[:-1]]

    @staticmethod
    def error(response: httpx.Response) -> dict[str, Any]:
        """The error of a reply, after a look at its shape."""
        body = response.json()
        assert set(body) == {"error"}
        assert {"message", "type", "param", "code"} <= set(body["error"])
        assert body["error"]["code"] == response.status_code
        found: dict[str, Any] = body["error"]
        return found

    @staticmethod
    def audio(chunks: Sequence[dict[str, Any]]) -> list[bytes]:
        """The pieces of speech in vLLM-Omni's shape."""
        return [
            base64.b64decode(chunk["choices"][0]["delta"]["content"])
            for chunk in chunks
            if chunk.get("modality") == "audio" and chunk["choices"][0]["delta"].get("content")
        ]


@pytest.fixture
def server() -> Server:
    pipeline, voices = FakePipeline(), FakeVoices()

    async def resolve(host: str, port: int) -> list[str]:
        raise OSError("no network in tests")

    model = ServedModel(
        names=("omni", "other"),
        root="folder/omni",
        created_s=1,
        tokenizer=Tokenizer.placeholder(2000),
        image_config=shipped_image_config(),
        pool_step=5,
        max_model_len=4096,
        has_speech=True,
        sampling=DEFAULT_STAGE_PARAMS,
        media_limits=MediaLimits(image=3, audio=3, video=1),
        video=VideoIO(fps=1, num_frames=128),
        max_voice_s=6.0,
        is_tiny=True,
    )
    services = Services(
        pipeline=pipeline,
        model=model,
        voices=voices,
        settings=ServeSettings(),
        fetcher=MediaFetcher(MediaPolicy(), resolve=resolve),
    )
    return Server(pipeline, voices, services)


@pytest.fixture(scope="session")
def data_url() -> Callable[[bytes, str], str]:
    def make(content: bytes, kind: str = "application/octet-stream") -> str:
        return f"data:{kind};base64,{base64.b64encode(content).decode()}"

    return make


@pytest.fixture(scope="session")
def encode_image() -> Callable[..., bytes]:
    """Encodes a plain picture."""

    def encode(size: tuple[int, int] = (32, 24), mode: str = "RGB", form: str = "PNG", **options: object) -> bytes:
        file = io.BytesIO()
        Image.new(mode, size, 100 if mode not in ("RGB", "CMYK", "RGBA") else None).save(file, form, **options)
        return file.getvalue()

    return encode
