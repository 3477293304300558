"""The JSONL file of `antiphon generate --jsonl`: one prompt a line, each an object with the keys below."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from antiphon.core.errors import PromptError

LINE_KEYS = (
    "prompt",
    "system",
    "messages",
    "images",
    "audios",
    "video",
    "ref_audio",
    "modalities",
    "sampling",
    "output",
)


@dataclass(frozen=True, kw_only=True)
class PromptLine:
    """One line. `prompt` is what `Omni` takes; `sampling` are fields for the Thinker; `output` names its WAV."""

    where: str  # FILE:LINE
    number: int  # of the line, from 1
    prompt: Mapping[str, object]
    sampling: Mapping[str, object]
    output: str | None


def read_prompt_lines(path: Path, *, modalities: list[str]) -> list[PromptLine]:
    """Read and check *path*; blank lines are skipped. Media paths are relative to the file's folder.

    Raises:
        PromptError: the file cannot be read or has no prompts, or a line (named as FILE:LINE) is not what it should be.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise PromptError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise PromptError(f"{path}: is not UTF-8 text; prompts are read from JSON lines") from None
    lines = [
        _parse(line, number, path, modalities) for number, line in enumerate(text.split("\n"), start=1) if line.strip()
    ]
    if not lines:
        raise PromptError(f"{path}: holds no prompts")
    return lines


def _parse(line: str, number: int, path: Path, modalities: list[str]) -> PromptLine:
    where = f"{path}:{number}"
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise PromptError(f"{where}: not JSON ({error})") from None
    if not isinstance(fields, dict):
        raise PromptError(f"{where}: is {type(fields).__name__}; each line must be an object")
    for key in fields:
        if key not in LINE_KEYS:
            raise PromptError(f"{where}: unknown key {key!r}; known: {', '.join(LINE_KEYS)}")
    sampling, output = fields.get("sampling", {}), fields.get("output")
    if not isinstance(sampling, dict):
        raise PromptError(f"{where}: sampling is {type(sampling).__name__}; it must be an object")
    if output is not None and not isinstance(output, str):
        raise PromptError(f"{where}: output is {output!r}; it must be a file name")
    prompt = {
        "messages": _messages(fields, where, path.parent),
        "modalities": fields.get("modalities", modalities),
        "ref_audio": _path(fields.get("ref_audio"), "ref_audio", where, path.parent),
    }
    return PromptLine(where=where, number=number, prompt=prompt, sampling=sampling, output=output)


def _messages(fields: Mapping[str, object], where: str, folder: Path) -> object:
    if "messages" in fields:
        doubled = [key for key in ("prompt", "system", "images", "audios", "video") if key in fields]
        if doubled:
            raise PromptError(f"{where}: {doubled[0]!r} does not go with 'messages'; put it into a message")
        return _with_folder(fields["messages"], where, folder)
    media: list[tuple[str, str]] = []
    for key, kind in (("images", "image"), ("audios", "audio"), ("video", "video")):
        value = fields.get(key, [])
        entries = value if isinstance(value, list) else [value]
        media += [(kind, str(_path(entry, key, where, folder))) for entry in entries]
    prompt, system = fields.get("prompt", ""), fields.get("system")
    if not isinstance(prompt, str) or not (system is None or isinstance(system, str)):
        raise PromptError(f"{where}: prompt and system must be strings")
    if not prompt.strip() and not media:
        raise PromptError(f"{where}: has neither a prompt nor media")
    return user_messages(prompt, system, media)


def user_messages(prompt: str, system: str | None, media: list[tuple[str, str]]) -> list[dict[str, object]]:
    """One user message, *media* (kind and path) in front of its text, behind an optional system message."""
    parts: list[dict[str, object]] = [{"type": kind, kind: value} for kind, value in media]
    if prompt:
        parts.append({"type": "text", "text": prompt})
    messages: list[dict[str, object]] = [{"role": "user", "content": parts}]
    return messages if system is None else [{"role": "system", "content": system}, *messages]


def _with_folder(messages: object, where: str, folder: Path) -> object:
    """The messages of a line with their media paths made relative to *folder*; their shape is checked later."""
    if not isinstance(messages, list):
        return messages
    placed = []
    for message in messages:
        if isinstance(message, dict) and isinstance(message.get("content"), list):
            parts = [_placed_part(part, where, folder) for part in message["content"]]
            message = {**message, "content": parts}
        placed.append(message)
    return placed


def _placed_part(part: object, where: str, folder: Path) -> object:
    if isinstance(part, dict):
        for kind in ("image", "audio", "video"):
            if part.get("type") == kind and kind in part:
                return {**part, kind: _path(part[kind], kind, where, folder)}
    return part


def _path(value: object, key: str, where: str, folder: Path) -> str | None:
    if value is None and key == "ref_audio":
        return None
    if not isinstance(value, str) or not value:
        raise PromptError(f"{where}: {key} is {value!r}; it must be a path")
    return str(folder / value)
