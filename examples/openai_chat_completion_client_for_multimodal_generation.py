#!/usr/bin/env python3
"""Asks a running server about text, a sound, a picture or a clip with the official OpenAI SDK (pip install openai).

    python examples/openai_chat_completion_client_for_multimodal_generation.py --query-type use_image --stream
    python examples/openai_chat_completion_client_for_multimodal_generation.py --query-type use_audio \
        --audio-path question.wav --modalities text,audio --num-concurrent-requests 4

Text is printed, every answer's speech goes to a WAV file.
"""

import argparse
import base64
import io
import mimetypes
import os
import sys
import wave
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from openai import APIConnectionError, APIStatusError, OpenAI
from sample_media import ensure_media

SYSTEM_PROMPT = "You are an assistant that sees pictures and clips, hears sounds, and answers in text and speech."
PROMPTS = {
    "text": "Explain in two sentences why the sky is blue.",
    "use_audio": "What do you hear?",
    "use_image": "What is in this picture?",
    "use_video": "What happens in this clip?",
}


@dataclass
class Answer:
    """What came back for one request: its text, and its audio payloads, each a WAV file of its own."""

    text: str
    audio: list[bytes]


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--query-type", "-q", choices=PROMPTS, default="use_video")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8099)
    parser.add_argument("--model", "-m", default="", help="default: the first that the server lists")
    parser.add_argument("--video-path", "-v", help="local file or URL; default: a made-up clip")
    parser.add_argument("--image-path", "-i", help="local file or URL; default: a made-up picture")
    parser.add_argument("--audio-path", "-a", help="local file or URL; default: a made-up tune")
    parser.add_argument("--prompt", "-p", help="default: a question that goes with the query type")
    parser.add_argument("--modalities", help="text, or text,audio; default: speech on")
    parser.add_argument("--num-concurrent-requests", type=int, default=1)
    parser.add_argument("--prompts", help="comma list; requests take them in turn")
    parser.add_argument("--stream", action="store_true")
    parser.add_argument("--output-dir", type=Path, default=Path("."), help="where the WAV files go")
    return parser.parse_args()


def media_url(path: str) -> str:
    """A URL as it is; a local file as a data: address, so that the server needs no access to it."""
    if path.startswith(("http://", "https://", "data:", "file:")):
        return path
    kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
    return f"data:{kind};base64,{base64.b64encode(Path(path).read_bytes()).decode()}"


def user_content(args: argparse.Namespace, prompt: str) -> list[dict[str, object]]:
    """The medium of the query in front of its question."""
    text: dict[str, object] = {"type": "text", "text": prompt}
    if args.query_type == "text":
        return [text]
    kind = args.query_type.removeprefix("use_")
    given = {"audio": args.audio_path, "image": args.image_path, "video": args.video_path}[kind]
    url = media_url(given or str(ensure_media()[kind]))
    return [{"type": f"{kind}_url", f"{kind}_url": {"url": url}}, text]


def ask(client: OpenAI, model: str, args: argparse.Namespace, prompt: str, *, is_printed: bool) -> Answer:
    modalities = [name.strip() for name in (args.modalities or "text,audio").split(",") if name.strip()]
    completion = client.chat.completions.create(
        model=model,
        messages=[
            {"role": "system", "content": SYSTEM_PROMPT},
            {"role": "user", "content": user_content(args, prompt)},
        ],
        modalities=modalities,
        stream=args.stream,
        extra_body={"chat_template_kwargs": {"enable_thinking": False, "use_tts_template": "audio" in modalities}},
    )
    if args.stream:
        return read_stream(completion, is_printed=is_printed)
    # Text and speech may share a choice or have one each.
    messages = [choice.message for choice in completion.choices]
    text = next((message.content for message in messages if message.content), "")
    return Answer(text, [base64.b64decode(message.audio.data) for message in messages if message.audio])


def read_stream(chunks: Iterator, *, is_printed: bool) -> Answer:
    answer = Answer("", [])
    for chunk in chunks:
        modality = (chunk.model_extra or {}).get("modality")
        for choice in chunk.choices:
            content = choice.delta.content or ""
            audio = (choice.delta.model_extra or {}).get("audio") or {}
            if modality == "audio" or audio.get("data"):
                data = base64.b64decode(audio.get("data") or content)
                if data:
                    answer.audio.append(data)
            elif content:
                answer.text += content
                if is_printed:
                    print(content, end="", flush=True)
    if is_printed:
        print()
    return answer


def save_audio(payloads: list[bytes], path: Path) -> float:
    """Join the samples of *payloads*, each a WAV of its own (or plain PCM), into one WAV; returns its seconds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    samples, rate_hz = [], 24_000
    for payload in payloads:
        if payload.startswith(b"RIFF"):
            with wave.open(io.BytesIO(payload)) as piece:
                rate_hz = piece.getframerate()
                payload = piece.readframes(piece.getnframes())
        samples.append(payload)
    with wave.open(str(path), "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(rate_hz)
        writer.writeframes(b"".join(samples))
    return sum(len(piece) for piece in samples) / 2 / rate_hz


def main() -> int:
    args = parse_args()
    client = OpenAI(
        base_url=f"http://{args.host}:{args.port}/v1",
        api_key=os.environ.get("OPENAI_API_KEY", "none"),
        timeout=900,
        max_retries=0,
    )
    count = args.num_concurrent_requests
    prompts = [prompt.strip() for prompt in (args.prompts or "").split(",") if prompt.strip()]
    prompts = prompts or [args.prompt or PROMPTS[args.query_type]]
    try:
        model = args.model or client.models.list().data[0].id
        with ThreadPoolExecutor(max_workers=count) as pool:
            answers = list(
                pool.map(
                    lambda place: ask(client, model, args, prompts[place % len(prompts)], is_printed=count == 1),
                    range(count),
                )
            )
    except (APIConnectionError, APIStatusError) as error:
        print(f"{client.base_url}: {error}", file=sys.stderr)
        return 1
    for place, answer in enumerate(answers):
        if count > 1 or not args.stream:
            print(f"[{place}] {answer.text}")
        if answer.audio:
            path = args.output_dir / f"output_{place}.wav"
            seconds = save_audio(answer.audio, path)
            print(f"[{place}] {len(answer.audio)} audio payloads, {seconds:.2f} s of speech in {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
