#!/usr/bin/env python3
"""The smallest streaming client: prints the text as it comes and writes the speech to a WAV. Standard library only.

python examples/streaming_chat_completion.py --prompt "Tell me about tides." --output tides.wav
"""

import argparse
import base64
import io
import json
import os
import sys
import time
import urllib.error
import urllib.request
import wave
from collections.abc import Iterator


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base-url", default="http://127.0.0.1:8099/v1")
    parser.add_argument("--model", default="", help="default: the server's")
    parser.add_argument("--prompt", default="Tell me in two sentences how tides are made.")
    parser.add_argument("--output", default="output.wav", help="where the speech goes")
    parser.add_argument("--text-only", action="store_true")
    args = parser.parse_args()

    body = {
        "messages": [{"role": "user", "content": args.prompt}],
        "modalities": ["text"] if args.text_only else ["text", "audio"],
        "chat_template_kwargs": {"enable_thinking": False, "use_tts_template": not args.text_only},
        "stream": True,
    }
    if args.model:
        body["model"] = args.model
    begin_s = time.perf_counter()
    try:
        num_chunks = speak(events(args.base_url.rstrip("/"), body), "" if args.text_only else args.output, begin_s)
    except urllib.error.HTTPError as error:
        print(f"HTTP {error.code}: {error.read().decode(errors='replace')[:400]}", file=sys.stderr)
        return 1
    except (urllib.error.URLError, RuntimeError) as error:
        print(f"{args.base_url}: {getattr(error, 'reason', error)}", file=sys.stderr)
        return 1
    if not args.text_only and not num_chunks:
        print("no speech came", file=sys.stderr)
        return 1
    return 0


def events(base_url: str, body: dict[str, object]) -> Iterator[dict]:
    """The chunks of the answer, as they come."""
    headers = {
        "Content-Type": "application/json",
        "Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY', 'none')}",
    }
    request = urllib.request.Request(f"{base_url}/chat/completions", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=900) as response:
        for line in response:
            payload = line.removeprefix(b"data:").strip()
            if not line.startswith(b"data:") or payload == b"[DONE]":
                continue
            chunk = json.loads(payload)
            if chunk.get("error"):
                raise RuntimeError(chunk["error"].get("message", "the server failed"))
            yield chunk


def speak(chunks: Iterator[dict], output: str, begin_s: float) -> int:
    """Print the text as it comes, then write the speech to *output*; returns the number of audio chunks."""
    pieces: list[bytes] = []
    rate_hz, first_s = 24_000, 0.0
    for chunk in chunks:
        for choice in chunk.get("choices", []):
            delta = choice.get("delta") or {}
            content = delta.get("content") or ""
            audio = (delta.get("audio") or {}).get("data") or (content if chunk.get("modality") == "audio" else "")
            if audio:
                first_s = first_s or time.perf_counter() - begin_s
                samples, rate_hz = read_samples(base64.b64decode(audio))
                pieces.append(samples)
            elif chunk.get("modality") != "audio":
                print(content, end="", flush=True)
    print()
    if pieces and output:
        with wave.open(output, "wb") as writer:
            writer.setnchannels(1)
            writer.setsampwidth(2)
            writer.setframerate(rate_hz)
            writer.writeframes(b"".join(pieces))
        spoken_s = sum(len(piece) for piece in pieces) / 2 / rate_hz
        print(f"[{spoken_s:.2f} s of speech in {output}, the first of {len(pieces)} chunks after {first_s:.2f} s]")
    print(f"[{time.perf_counter() - begin_s:.2f} s]")
    return len(pieces)


def read_samples(content: bytes) -> tuple[bytes, int]:
    """Samples and rate of one chunk. Each chunk is a WAV file of its own (or plain PCM): samples join, files do not."""
    if not content.startswith(b"RIFF"):
        return content, 24_000
    with wave.open(io.BytesIO(content)) as piece:
        return piece.readframes(piece.getnframes()), piece.getframerate()


if __name__ == "__main__":
    sys.exit(main())
