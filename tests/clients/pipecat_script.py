"""Pipecat's OpenAI realtime service, unmodified: rows P1 and P2 of specification section 22.1. Run by the clients' own
Python.

    pipecat_script.py parse FILE                      every line of FILE is an event of the server
    pipecat_script.py talk REALTIME_URL false|unset|semantic|server
"""

import asyncio
import json
import math
import struct
import sys
from pathlib import Path

from loguru import logger
from pipecat.frames.frames import (
    EndFrame,
    ErrorFrame,
    Frame,
    InputAudioRawFrame,
    LLMContextFrame,
    TTSAudioRawFrame,
    TTSStartedFrame,
    TTSStoppedFrame,
    UserStoppedSpeakingFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.openai.realtime import events
from pipecat.services.openai.realtime.llm import OpenAIRealtimeLLMService
from pipecat.workers.runner import WorkerRunner

RATE_HZ = 24_000
ANSWER_BYTES = 192_000
PERIOD = struct.pack("<100h", *(int(9000 * math.sin(2 * math.pi * index / 50)) for index in range(100)))
DETECTION = {
    "false": False,
    "unset": None,
    "semantic": events.SemanticTurnDetection(),
    "server": events.TurnDetection(),
}


class Watch(FrameProcessor):
    """Counts what goes by."""

    def __init__(self) -> None:
        super().__init__()
        self.num_bytes = 0
        self.marks: list[str] = []
        self.errors: list[str] = []
        self._stopped = asyncio.Event()

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, TTSAudioRawFrame):
            self.num_bytes += len(frame.audio)
        elif isinstance(frame, TTSStartedFrame):
            self.marks.append("started")
        elif isinstance(frame, TTSStoppedFrame):
            self.marks.append("stopped")
            self._stopped.set()
        elif isinstance(frame, ErrorFrame):
            self.errors.append(str(frame.error))
        await self.push_frame(frame, direction)

    async def stopped(self) -> int:
        """Bytes of the speech that has just ended."""
        await asyncio.wait_for(self._stopped.wait(), 15)
        self._stopped.clear()
        size, self.num_bytes = self.num_bytes, 0
        return size


def second(duration_ms: int, *, is_loud: bool) -> InputAudioRawFrame:
    samples = duration_ms * RATE_HZ // 1000
    data = (PERIOD * (samples // 100 + 1))[: 2 * samples] if is_loud else bytes(2 * samples)
    return InputAudioRawFrame(audio=data, sample_rate=RATE_HZ, num_channels=1)


async def talk(url: str, detection: str) -> dict[str, object]:
    audio = events.AudioConfiguration(input=events.AudioInput(turn_detection=DETECTION[detection]))
    settings = OpenAIRealtimeLLMService.Settings(
        model="m", session_properties=events.SessionProperties(instructions="Be friendly.", audio=audio)
    )
    service = OpenAIRealtimeLLMService(api_key="none", base_url=url, settings=settings)
    above, below = Watch(), Watch()
    worker = PipelineWorker(Pipeline([above, service, below]), cancel_on_idle_timeout=False, enable_rtvi=False)
    started = asyncio.Event()
    worker.add_event_handler("on_pipeline_started", _setter(started))
    sizes: list[int] = []

    async def scene() -> None:
        await asyncio.wait_for(started.wait(), 10)
        context = LLMContext([{"role": "user", "content": "Tell me a story."}])
        await worker.queue_frame(LLMContextFrame(context))
        sizes.append(await below.stopped())
        for _ in range(80):
            await worker.queue_frame(second(20, is_loud=True))
        for _ in range(80):
            await worker.queue_frame(second(20, is_loud=False))
        if detection == "false":
            await worker.queue_frame(UserStoppedSpeakingFrame())
        sizes.append(await below.stopped())
        await worker.queue_frame(EndFrame())

    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)
    await asyncio.gather(runner.run(), scene())
    return {"sizes": sizes, "marks": below.marks, "errors": above.errors + below.errors}


def _setter(event: asyncio.Event):  # type: ignore[no-untyped-def]
    async def handler(*_: object) -> None:
        event.set()

    return handler


def parse(path: str) -> dict[str, object]:
    """Types that Pipecat has no model for."""
    lines = Path(path).read_text("utf-8").splitlines()
    unknown = [json.loads(line)["type"] for line in lines if events.parse_server_event(line) is None]
    return {"num_events": len(lines), "unknown": unknown}


if __name__ == "__main__":
    logger.remove()
    logger.add(sys.stderr, level="WARNING")
    if sys.argv[1] == "parse":
        print(json.dumps(parse(sys.argv[2])))
    else:
        print(json.dumps(asyncio.run(asyncio.wait_for(talk(sys.argv[2], sys.argv[3]), 60))))
