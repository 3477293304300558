"""LiveKit's OpenAI realtime session, unmodified: row L1 of specification section 22.1. Run by the clients' own Python.

livekit_script.py BASE_URL default|none|server
"""

import asyncio
import json
import logging
import math
import struct
import sys

import aiohttp
from livekit import rtc
from livekit.agents import llm
from livekit.plugins.openai.realtime import RealtimeModel
from openai.types.realtime.realtime_audio_input_turn_detection import ServerVad

RATE_HZ = 24_000
ANSWER_BYTES = 192_000
SERVER_VAD = ServerVad(type="server_vad", silence_duration_ms=300)
PERIOD = struct.pack("<100h", *(int(9000 * math.sin(2 * math.pi * index / 50)) for index in range(100)))


class Warnings(logging.Handler):
    """Everything that the plugin complains about."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def pcm(duration_ms: int, *, is_loud: bool) -> rtc.AudioFrame:
    samples = duration_ms * RATE_HZ // 1000
    data = (PERIOD * (samples // 100 + 1))[: 2 * samples] if is_loud else bytes(2 * samples)
    return rtc.AudioFrame(data, RATE_HZ, 1, samples)


async def read(generation: llm.GenerationCreatedEvent) -> tuple[str, int, str]:
    """Message id, bytes of speech, and transcript of one generation."""
    async for message in generation.message_stream:
        size = 0
        async for frame in message.audio_stream:
            size += len(frame.data.tobytes())
        text = "".join([str(piece) async for piece in message.text_stream])
        return message.message_id, size, text
    raise AssertionError("a generation without a message")


async def main(base_url: str, detection: str) -> dict[str, object]:
    warnings = Warnings()
    logging.getLogger("livekit").addHandler(warnings)
    async with aiohttp.ClientSession() as http:
        options = {"default": {}, "none": {"turn_detection": None}, "server": {"turn_detection": SERVER_VAD}}[detection]
        model = RealtimeModel(model="m", base_url=base_url, api_key="none", http_session=http, **options)
        session = model.session()
        errors: list[str] = []
        marks: list[str] = []
        generations: asyncio.Queue[llm.GenerationCreatedEvent] = asyncio.Queue()
        session.on("error", lambda event: errors.append(str(event.error)))
        session.on("input_speech_started", lambda _: marks.append("started"))
        session.on("input_speech_stopped", lambda _: marks.append("stopped"))
        session.on("generation_created", generations.put_nowait)

        await session.update_instructions("Be friendly.")
        greeting = await session.generate_reply(instructions="Greet the user.")
        assert greeting.user_initiated
        await generations.get()
        _, greeted_bytes, greeted = await read(greeting)

        for _ in range(16):
            session.push_audio(pcm(100, is_loud=True))
        if detection != "none":
            for _ in range(16):
                session.push_audio(pcm(100, is_loud=False))
            reply = await asyncio.wait_for(generations.get(), 10)
        else:
            session.commit_audio()
            reply = await session.generate_reply()
            assert reply.user_initiated
            await generations.get()
        message_id, reply_bytes, replied = await read(reply)
        session.truncate(message_id=message_id, modalities=["audio"], audio_end_ms=1500)

        context = session.chat_ctx.copy()
        context.add_message(role="user", content="By the way, my name is Ada.")
        await session.update_chat_ctx(context)
        last = await session.generate_reply()
        session.interrupt()
        await generations.get()
        _, cut_bytes, _ = await read(last)
        while session.has_active_generation:  # its response.done is still under way
            await asyncio.sleep(0.01)
        await session.aclose()
        await model.aclose()
    return {
        "greeted": [greeted_bytes, greeted],
        "replied": [reply_bytes, replied],
        "cut_bytes": cut_bytes,
        "marks": marks,
        "errors": errors,
        "warnings": warnings.texts,
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(asyncio.wait_for(main(sys.argv[1], sys.argv[2]), 60))))
