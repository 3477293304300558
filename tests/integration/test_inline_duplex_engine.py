"""`InlineDuplexClient` over the real engine, with the tiny model."""

import asyncio
from dataclasses import replace

from duplex_engine import deploy_for, talkative_model
from duplex_scenes import preset, silence, speech

from antiphon.client import EventCollector, InlineDuplexClient
from antiphon.pipeline.eager.voices import DEFAULT_VOICE as DEFAULT_RECORDING
from antiphon.pipeline.local_engine import LocalEngine
from antiphon.serving.realtime.duplex_omni import DuplexOmni
from antiphon.serving.realtime.pipeline_engine import DEFAULT_VOICE, PipelineDuplexEngine
from antiphon.serving.realtime.settings import DEFAULT_SESSION, RealtimeSettings


def test_a_session_in_process_is_decided_spoken_and_closed(tiny_checkpoint):
    model = talkative_model(tiny_checkpoint)
    local = LocalEngine(model, deploy_for())
    local.start(lambda line: None)
    engine = PipelineDuplexEngine(
        local.duplex,
        local.voices,
        model="tiny",
        default_recording=None if model.folder is None else model.folder / DEFAULT_RECORDING,
        max_voice_s=10.0,
        max_positions=local.session_positions,
        speaks=True,
    )

    async def run():
        settings = RealtimeSettings(defaults=replace(DEFAULT_SESSION, reference=DEFAULT_VOICE))
        omni = DuplexOmni(engine, settings)
        async with InlineDuplexClient(omni, config=preset()) as client:
            collector = EventCollector()
            task = asyncio.create_task(collector.consume(client))
            await asyncio.sleep(0)
            await client.stream_pcm(speech(10) + silence(10), realtime=False)
            sound = b""
            async for handle in client.responses():
                # With random weights a turn may also end before it has said anything.
                if handle.decision == "speak":
                    sound = b"".join([chunk async for chunk in handle.audio()])
                if sound:
                    break
        await task
        await omni.close()
        assert sound
        assert collector.errors() == []
        assert collector.events[-1]["type"] == "session.closed"

    try:
        asyncio.run(asyncio.wait_for(run(), 120))
    finally:
        engine.close()
        local.close()
