"""What the prompt and image cases need of a recorded set: tokenizer, configs, and messages from their recorded form.

Read from the checkpoint's files alone, so these cases run without loading the weights.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from antiphon.config.checkpoint import ImageConfig, ModelConfig, parse_image_config, parse_model_config
from antiphon.core.errors import PromptError
from antiphon.offline.verify.context import VerifyContext
from antiphon.offline.verify.golden import audio_signal, image_pattern
from antiphon.prompt.messages import AudioPart, ImagePart, Message, Part, TextPart
from antiphon.prompt.tokenizer import Tokenizer


def recorded_tokenizer(context: VerifyContext) -> Tokenizer:
    return context.once("prompt_inputs.tokenizer", lambda: Tokenizer.load(context.golden.checkpoint))


def recorded_image_config(context: VerifyContext) -> ImageConfig:
    path = context.golden.checkpoint / "preprocessor_config.json"
    return context.once(
        "prompt_inputs.image_config", lambda: parse_image_config(json.loads(path.read_text(encoding="utf-8")))
    )


def recorded_model_config(context: VerifyContext) -> ModelConfig:
    path = context.golden.checkpoint / "config.json"
    return context.once(
        "prompt_inputs.model_config", lambda: parse_model_config(json.loads(path.read_text(encoding="utf-8")))
    )


def recorded_messages(messages: Sequence[Mapping[str, Any]]) -> list[Message]:
    """Messages as the case files write them: a string, or a list of strings, ["img", w, h, seed], ["aud", n, seed]."""
    return [Message(message["role"], recorded_parts(message["content"])) for message in messages]


def recorded_parts(content: str | Sequence[Any]) -> tuple[Part, ...]:
    if isinstance(content, str):
        return (TextPart(content),)
    return tuple(_part(part) for part in content)


def _part(part: Any) -> Part:
    match part:
        case str():
            return TextPart(part)
        case ["img", int(width), int(height), int(seed)]:
            return ImagePart(image_pattern(width, height, seed))
        case ["aud", int(num_samples), int(seed)]:
            return AudioPart(audio_signal(num_samples, seed))
        case _:
            raise PromptError(f"a recorded message has a part of an unknown form: {part!r}")
