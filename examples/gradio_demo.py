#!/usr/bin/env python3
"""A page to talk to a running server: text, picture, sound, clip and voice in; text and speech out.

pip install 'antiphon[demo]'
antiphon serve &
python examples/gradio_demo.py            # http://127.0.0.1:7862
"""

import argparse
import base64
import io
import mimetypes
import os
import sys
import urllib.error
import urllib.request
import wave
from dataclasses import dataclass
from pathlib import Path

import av
import gradio as gr
import numpy as np
from numpy.typing import NDArray
from openai import APIConnectionError, APIStatusError, OpenAI
from PIL import Image

PLAIN_SYSTEM_PROMPT = (
    "You are a friendly assistant that sees, hears and speaks. Answer briefly, in the user's language."
)
# The model was trained with these words around the recording of a voice; others give another voice.
VOICE_PREFIX = "模仿音频样本的音色并生成新的内容。"
VOICE_SUFFIX = (
    "你的任务是用这种声音模式来当一个助手。请认真、高质量地回复用户的问题。请用高自然度的方式和用户聊天。"
    "你是由面壁智能开发的人工智能助手：面壁小钢炮。"
)
VOICE_RATE_HZ = 16_000
MAX_VOICE_S = 8  # 3 to 10 s are recommended
JPEG_QUALITY = 92
HEALTH_TIMEOUT_S = 3
MAX_CONCURRENCY = 16  # visitors who are answered at once; the server batches them
QUICK_PROMPTS = (
    "Introduce yourself in one sentence.",
    "What do you see?",
    "What do you hear?",
    "Tell me a very short story about the sea.",
)


@dataclass(frozen=True)
class Demo:
    """The server to ask, and the voice to speak in when the user brings none: a `data:` address, "" for the model's."""

    client: OpenAI
    default_voice: str


def main() -> int:
    args = parse_args()
    client = OpenAI(base_url=args.minicpmo45_api_base, api_key=os.environ.get("OPENAI_API_KEY", "none"), max_retries=0)
    reason = probe(args.minicpmo45_api_base)
    if reason:
        print(f"warning: {args.minicpmo45_api_base} does not answer yet ({reason})", file=sys.stderr)
    models = list_models(client, args.minicpmo45_model)
    demo = Demo(client, reference_voice(args.minicpmo45_model))
    page = build_page(demo, models, reason)
    page.queue(max_size=32).launch(
        server_name=args.host,
        server_port=args.port,
        share=args.share,
        ssl_certfile=args.ssl_certfile,
        ssl_keyfile=args.ssl_keyfile,
        ssl_verify=args.ssl_verify,
    )
    return 0


def parse_args() -> argparse.Namespace:
    env = os.environ
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--minicpmo45-api-base", default=env.get("MINICPMO45_API_BASE", "http://127.0.0.1:8099/v1"), metavar="URL"
    )
    parser.add_argument(
        "--minicpmo45-model",
        default=env.get("MINICPMO45_MODEL", ""),
        help="served name; a model's folder also brings its reference voice",
    )
    parser.add_argument("--host", default=env.get("GRADIO_HOST", "0.0.0.0"))
    parser.add_argument("--port", type=int, default=int(env.get("GRADIO_PORT", "7862")))
    parser.add_argument("--share", action="store_true", help="a public link through Gradio's servers")
    parser.add_argument("--ssl-certfile", default=env.get("GRADIO_SSL_CERTFILE"))
    parser.add_argument("--ssl-keyfile", default=env.get("GRADIO_SSL_KEYFILE"))
    parser.add_argument("--ssl-verify", type=parse_switch, default=parse_switch(env.get("GRADIO_SSL_VERIFY", "true")))
    return parser.parse_args()


def parse_switch(text: str) -> bool:
    return text.strip().lower() in ("1", "true", "yes", "on")


def probe(api_base: str) -> str:
    """Why `/health` does not answer well, "" if it does."""
    url = api_base.rstrip("/").removesuffix("/v1") + "/health"
    try:
        with urllib.request.urlopen(url, timeout=HEALTH_TIMEOUT_S):
            return ""
    except (urllib.error.URLError, TimeoutError, ValueError) as error:
        return str(getattr(error, "reason", error))


def list_models(client: OpenAI, wanted: str) -> list[str]:
    """What the server lists, with *wanted* in front."""
    try:
        listed = [card.id for card in client.with_options(timeout=HEALTH_TIMEOUT_S).models.list().data]
    except (APIConnectionError, APIStatusError):
        listed = []
    return list(dict.fromkeys([*([wanted] if wanted else []), *listed])) or ["MiniCPM-o-4_5"]


def reference_voice(model: str) -> str:
    """The voice that lies in a model's folder, as a `data:` address; "" if *model* is no such folder."""
    path = Path(model) / "assets" / "HT_ref_audio.wav"
    return voice_url(path) if model and path.is_file() else ""


def voice_url(path: Path) -> str:
    """At most 8 s of a recording, mono 16 kHz WAV, as a `data:` address."""
    pieces: list[NDArray[np.int16]] = []
    resampler = av.AudioResampler(format="s16", layout="mono", rate=VOICE_RATE_HZ)
    with av.open(str(path)) as container:
        for frame in container.decode(audio=0):
            pieces += [piece.to_ndarray()[0] for piece in resampler.resample(frame)]
            if sum(len(piece) for piece in pieces) >= MAX_VOICE_S * VOICE_RATE_HZ:
                break
    samples = np.concatenate(pieces)[: MAX_VOICE_S * VOICE_RATE_HZ]
    return data_url("audio/wav", wav_file(VOICE_RATE_HZ, samples))


def wav_file(rate_hz: int, samples: NDArray[np.int16]) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1 if samples.ndim == 1 else samples.shape[1])
        writer.setsampwidth(2)
        writer.setframerate(rate_hz)
        writer.writeframes(samples.astype("<i2").tobytes())
    return file.getvalue()


def data_url(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def system_message(voice: str) -> dict[str, object]:
    """With a voice: the recording between the words the model knows; without: plain text."""
    if not voice:
        return {"role": "system", "content": PLAIN_SYSTEM_PROMPT}
    recording = {"type": "audio_url", "audio_url": {"url": voice}}
    parts = [{"type": "text", "text": VOICE_PREFIX}, recording, {"type": "text", "text": VOICE_SUFFIX}]
    return {"role": "system", "content": parts}


def user_message(
    text: str, image: Image.Image | None, audio: tuple[int, NDArray[np.int16]] | None, video: str | None
) -> dict[str, object]:
    """Sound, picture, clip, then text: media stand in front of the question about them."""
    parts: list[dict[str, object]] = []
    if audio is not None:
        rate_hz, samples = audio
        url = data_url("audio/wav", wav_file(rate_hz, to_int16(samples)))
        parts.append({"type": "audio_url", "audio_url": {"url": url}})
    if image is not None:
        file = io.BytesIO()
        image.convert("RGB").save(file, format="JPEG", quality=JPEG_QUALITY)
        parts.append({"type": "image_url", "image_url": {"url": data_url("image/jpeg", file.getvalue())}})
    if video:
        parts.append(
            {
                "type": "video_url",
                "video_url": {"url": data_url(mimetypes.guess_type(video)[0] or "video/mp4", Path(video).read_bytes())},
            }
        )
    if text.strip():
        parts.append({"type": "text", "text": text})
    return {"role": "user", "content": parts}


def to_int16(samples: NDArray[np.generic]) -> NDArray[np.int16]:
    if samples.dtype == np.int16:
        return samples.astype(np.int16)
    if np.issubdtype(samples.dtype, np.floating):
        return (np.clip(samples, -1, 1) * 32767).astype(np.int16)
    return (samples.astype(np.int64) >> (8 * samples.dtype.itemsize - 16)).astype(np.int16)


def answer(
    demo: Demo,
    model: str,
    text: str,
    image: Image.Image | None,
    audio: tuple[int, NDArray[np.int16]] | None,
    video: str | None,
    voice: str | None,
    has_speech: bool,
    max_tokens: int,
    temperature: float,
) -> tuple[str, tuple[int, NDArray[np.int16]] | None]:
    """Ask once and return the text and, with speech, (rate in Hz, samples [N] int16) for the player."""
    message = user_message(text, image, audio, video)
    if not message["content"]:
        raise refusal("Type something, or add a sound, a picture or a clip.")
    try:
        voice_address = (voice_url(Path(voice)) if voice else demo.default_voice) if has_speech else ""
    except (av.error.FFmpegError, IndexError, ValueError):  # no sound in it
        raise refusal("The voice cannot be read; give a WAV, MP3 or FLAC recording.") from None
    extra: dict[str, object] = {"chat_template_kwargs": {"enable_thinking": False, "use_tts_template": has_speech}}
    if voice_address:
        extra["ref_audio"] = voice_address
    try:
        completion = demo.client.chat.completions.create(
            model=model,
            messages=[system_message(voice_address), message],
            modalities=["text", "audio"] if has_speech else ["text"],
            max_tokens=max_tokens,
            temperature=temperature,
            extra_body=extra,
        )
    except APIStatusError as error:
        raise refusal(f"The server refused: {error.message}") from None
    except APIConnectionError:
        raise refusal(f"No server answers at {demo.client.base_url}.") from None
    # Text and speech may share a choice or have one each.
    messages = [choice.message for choice in completion.choices]
    content = next((item.content for item in messages if item.content), "")
    payload = next((item.audio.data for item in messages if item.audio and item.audio.data), None)
    return content, read_wav(base64.b64decode(payload)) if payload else None


def refusal(message: str) -> gr.Error:
    """What the page shows; it is no fault of the program, so the console is spared."""
    return gr.Error(message, print_exception=False)


def read_wav(content: bytes) -> tuple[int, NDArray[np.int16]]:
    with wave.open(io.BytesIO(content)) as reader:
        return reader.getframerate(), np.frombuffer(reader.readframes(reader.getnframes()), dtype="<i2")


def build_page(demo: Demo, models: list[str], reason: str) -> gr.Blocks:
    """The page; *reason* says why the server does not answer, "" if it does."""
    state = f"⚠️ The server does not answer yet: {reason}" if reason else f"Server: {demo.client.base_url}"
    with gr.Blocks(title="MiniCPM-o 4.5") as page:
        gr.Markdown(f"# MiniCPM-o 4.5\n{state}")
        with gr.Row():
            with gr.Column():
                text = gr.Textbox(label="Message", lines=3, placeholder="Ask something", autofocus=True)
                gr.Examples([[prompt] for prompt in QUICK_PROMPTS], inputs=[text], label="Quick prompts")
                with gr.Row():
                    has_speech = gr.Checkbox(value=True, label="Speech", container=False, min_width=80)
                    clear = gr.Button("Clear", min_width=80)
                    send = gr.Button("Send", variant="primary", min_width=80)
                with gr.Accordion("Picture, sound, clip", open=True):
                    with gr.Row():
                        image = gr.Image(label="Picture", type="pil", sources=["upload"], height=200)
                        video = gr.Video(label="Clip", sources=["upload"], height=200)
                    audio = gr.Audio(label="Sound", type="numpy", sources=["upload", "microphone"])
                with gr.Accordion("Voice and options", open=False):
                    voice = gr.Audio(label="Voice to speak in (3 to 10 s)", type="filepath", sources=["upload"])
                    model = gr.Dropdown(models, value=models[0], label="Model", allow_custom_value=True)
                    max_tokens = gr.Slider(32, 4096, value=1024, step=32, label="Most text tokens")
                    temperature = gr.Slider(0, 1.5, value=0.7, step=0.05, label="Temperature")
            with gr.Column():
                reply = gr.Textbox(label="Answer", lines=10, interactive=False)
                speech = gr.Audio(label="Speech", type="numpy", autoplay=True, interactive=False)

        def ask(*values: object) -> tuple[str, tuple[int, NDArray[np.int16]] | None]:
            return answer(demo, *values)  # type: ignore[arg-type]

        inputs = [model, text, image, audio, video, voice, has_speech, max_tokens, temperature]
        gr.on([send.click, text.submit], ask, inputs=inputs, outputs=[reply, speech], concurrency_limit=MAX_CONCURRENCY)
        clear.click(
            lambda: ("", None, None, None, None, "", None),
            outputs=[text, image, audio, video, voice, reply, speech],
        )
    return page


if __name__ == "__main__":
    sys.exit(main())
