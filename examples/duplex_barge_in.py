"""Interrupts a live model: asks a question, listens for a moment, says stop, and shows what the model believes it said.

    python examples/duplex_barge_in.py question.wav --url ws://localhost:8099 --after-s 1.5

The loudspeaker is imitated: sound is taken at its own speed, and the server is told what was heard so far.
"""

import argparse
import asyncio
from pathlib import Path

from antiphon.client import DuplexClient, ResponseHandle, create_duplex_session_config, read_pcm16_wav, write_pcm16_wav


async def main() -> None:
    options = parse_options()
    question = read_pcm16_wav(options.question)
    async with DuplexClient(options.url, config=create_duplex_session_config(), api_key=options.api_key) as client:
        await client.stream_pcm(question)
        await client.commit()
        response = await asyncio.wait_for(first_spoken(client), options.timeout_s)
        heard = bytearray()
        async for chunk in response.audio():
            for begin in range(0, len(chunk), 4800):  # 0.1 s
                await asyncio.sleep(0.1)
                heard += chunk[begin : begin + 4800]
                if len(heard) / 48_000 >= options.after_s:
                    break
            acknowledged = client.wait_for("playback.acknowledged", timeout_s=10)
            await client.ack_playback(len(heard) / 48, response_id=response.response_id)
            told = (await acknowledged).raw["event"]
            if len(heard) / 48_000 >= options.after_s:
                await client.barge_in()
                break
    print(f"heard {len(heard) / 48_000:.1f} s of: {response.text}")
    print(f"the model believes it said: {told.get('history_text')}")
    write_pcm16_wav(options.output, bytes(heard), sample_rate_hz=24_000)


async def first_spoken(client: DuplexClient) -> ResponseHandle:
    async for response in client.responses():
        if response.decision == "speak":
            return response
    raise SystemExit("the model said nothing")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("question", type=Path, help="a sound file")
    parser.add_argument("--url", default="ws://localhost:8099")
    parser.add_argument("--api-key")
    parser.add_argument("--after-s", type=float, default=1.5, help="interrupt when so much was heard")
    parser.add_argument("--timeout-s", type=float, default=30.0, help="for the answer to begin")
    parser.add_argument("--output", type=Path, default=Path("heard.wav"))
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(main())
