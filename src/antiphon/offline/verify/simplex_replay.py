"""Runs the recorded turn-based session through our own and notes everything the recording noted."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from torch import Tensor

from antiphon.engine.noise import Argmax
from antiphon.offline.verify.context import VerifyContext
from antiphon.offline.verify.golden import audio_signal, image_pattern
from antiphon.offline.verify.recorded_voice import recorded_vocoder
from antiphon.pipeline.eager.simplex import AnswerChunk, SimplexOptions, SimplexSession, SpokenPiece
from antiphon.pipeline.eager.simplex_prompt import SegmentPrompt
from antiphon.pipeline.eager.simplex_window import RoundEntry
from antiphon.prompt.messages import AudioPart, ImagePart, Message, Part, TextPart
from antiphon.prompt.system_prompt import system_prompt

FOLDER = "10_simplex_stream"
BIAS_NAME = "static_bias"
_ANSWER_ARGUMENTS = ("max_new_tokens", "use_tts_template")


@dataclass(frozen=True)
class ForcedToken:
    """The recorded steering: a constant bias, and an amount for one id at one draw of the answer."""

    static: Tensor  # [vocab]
    step: int
    token_id: int
    amount: float

    def __call__(self, step: int, logits: Tensor) -> Tensor:
        logits = logits + self.static.to(logits)
        if step == self.step:
            logits[self.token_id] += self.amount
        return logits


@dataclass(frozen=True, kw_only=True)
class OperationTrace:
    """One operation and the session's state after it. Either *segment* or *chunks* is there."""

    segment: SegmentPrompt | None = None
    content: list[str] = field(default_factory=list)
    chunks: tuple[AnswerChunk, ...] | None = None
    ids: tuple[int, ...] = ()
    spoken: tuple[SpokenPiece, ...] = ()
    keys: Tensor  # of layer 0, [H_kv, T, D]
    rounds: tuple[RoundEntry, ...]
    has_dropped: bool
    num_audio_frames: int
    num_audio_segments: int
    system_len: int
    num_dropped_tokens: int
    limits: tuple[int, int]
    is_new_turn: bool
    has_answered: bool


def replay_session(context: VerifyContext, file: str) -> list[OperationTrace]:
    """One trace for each operation of *file* (`.json` or `.safetensors`), run once however many files ask for it."""
    name = str(PurePosixPath(file).with_suffix(""))
    return context.once(name, lambda: list(_run(context, name)))


def _run(context: VerifyContext, name: str) -> Iterator[OperationTrace]:
    golden = context.golden
    log, note = (golden.json(f"{name}.json")[key] for key in ("log", "note"))
    arguments = golden.inputs[FOLDER]
    session = SimplexSession(
        context.model,
        SimplexOptions(max_codes=arguments["talker_max_new_token"]),
        noise=Argmax(),
        voice=recorded_vocoder(context).stream(),
    )
    static = golden.tensor(f"{name}.safetensors", BIAS_NAME)
    amount = re.search(r"\+(\d+(?:\.\d+)?) on the forced token", note)
    for entry, recorded in zip(arguments["operations"], log, strict=False):
        limits = re.search(r"window limits (\d+)/(\d+)", entry["op"])
        if limits is not None:
            session.window.high_tokens, session.window.low_tokens = int(limits[1]), int(limits[2])
        num_dropped = session.window.num_dropped_tokens
        segment, chunks, content = None, None, list[str]()
        if recorded["op"] == "prefill":
            message = _message(context, entry, recorded)
            content = [_label(part) for part in message.parts]
            is_last_audio = recorded["kwargs"].get("is_last_chunk", False)
            segment = session.prefill(message, is_last_audio=is_last_audio)
        else:
            step, token = recorded["forced"] or (-1, "")
            forced = ForcedToken(
                static, step, context.model.tokenizer.id(token), float(amount[1]) if amount is not None else 0.0
            )
            known = {key: value for key, value in recorded["kwargs"].items() if key in _ANSWER_ARGUMENTS}
            chunks = tuple(session.generate(generate_audio=recorded["generate_audio"], adjust_logits=forced, **known))
        yield OperationTrace(
            segment=segment,
            content=content,
            chunks=chunks,
            ids=tuple(session.ids),
            spoken=tuple(session.spoken),
            keys=session.sequence.cache.layer(0)[0],
            rounds=tuple(session.window.entries),
            has_dropped=session.window.num_dropped_tokens > num_dropped,
            num_audio_frames=session.encoder.num_audio_frames,
            num_audio_segments=session.encoder.num_audio_segments,
            system_len=session.system_len,
            num_dropped_tokens=session.window.num_dropped_tokens,
            limits=(session.window.high_tokens, session.window.low_tokens),
            is_new_turn=session.is_new_turn,
            has_answered=session.has_answered,
        )


def unknown_arguments(recorded: Mapping[str, Any]) -> list[str]:
    """Arguments of a recorded operation that the replay cannot honour."""
    known = ("is_last_chunk",) if recorded["op"] == "prefill" else _ANSWER_ARGUMENTS
    return [key for key in recorded["kwargs"] if key not in known]


def _message(context: VerifyContext, entry: Mapping[str, Any], recorded: Mapping[str, Any]) -> Message:
    """The message of a prefill. A system prompt is described in words, a user's content lies in the inputs."""
    audio = context.golden.inputs["audio"]
    if recorded["role"] == "system":
        reference = audio["reference_audio"]
        described = re.search(r"mode (\w+), language (\w+)", entry["content"])
        mode, language = (described[1], described[2]) if described is not None else ("omni", "en")
        return system_prompt(mode, language, AudioPart(audio_signal(reference["samples"], reference["seed"])))
    user = audio[f"{FOLDER}.user"]
    signal = audio_signal(user["samples"], user["seed"])
    parts: list[Part] = []
    for item in entry["content"]:
        if isinstance(item, str):
            parts.append(TextPart(item))
        elif "img" in item:
            parts.append(ImagePart(image_pattern(*item["img"])))
        else:
            start, end = item["audio"]
            parts.append(AudioPart(signal[start:end]))
    return Message("user", tuple(parts))


def _label(part: Part) -> str:
    """How the recording writes a part."""
    if isinstance(part, TextPart):
        return part.text
    if isinstance(part, ImagePart):
        return f"<IMG {part.image.width}x{part.image.height}>"
    return f"<AUDIO {len(part.samples)}>"
