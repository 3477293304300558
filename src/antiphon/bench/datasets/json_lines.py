"""`jsonl`: requests from a file with one JSON object a line.

Keys: `prompt` or `messages`; `images`, `audios`, `video` (paths relative to the file, or addresses), which stand in
front of the prompt; `system`; `output_tokens`; `extra_body`, merged at the root of the request.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from antiphon.bench.bench_request import BenchRequest, text_part, url_part, user_message
from antiphon.bench.datasets.media_files import media_url
from antiphon.core.errors import ConfigError

KEYS = ("prompt", "messages", "system", "images", "audios", "video", "output_tokens", "extra_body")
DEFAULT_OUTPUT_LEN = 256


@dataclass(frozen=True, kw_only=True)
class JsonLinesOptions:
    """`output_len_tokens` holds for lines without `output_tokens`."""

    path: Path
    output_len_tokens: int = DEFAULT_OUTPUT_LEN


def read_json_lines(options: JsonLinesOptions) -> list[BenchRequest]:
    """All lines of the file; blank ones are skipped.

    Raises:
        ConfigError: the file cannot be read or holds nothing, or a line (named as FILE:LINE) is not as it should be.
        MediaError: a media file is missing.
    """
    path = options.path
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not UTF-8 text") from None
    requests = [
        _parse(line, f"{path}:{number}", path.parent, options.output_len_tokens)
        for number, line in enumerate(lines, start=1)
        if line.strip()
    ]
    if not requests:
        raise ConfigError(f"{path}: holds no requests")
    return requests


def _parse(line: str, where: str, folder: Path, output_len_tokens: int) -> BenchRequest:
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise ConfigError(f"{where}: not JSON ({error})") from None
    if not isinstance(fields, dict):
        raise ConfigError(f"{where}: each line must be an object")
    for key in fields:
        if key not in KEYS:
            raise ConfigError(f"{where}: unknown key {key!r}; known: {', '.join(KEYS)}")
    prompt, extra, limit = fields.get("prompt", ""), fields.get("extra_body", {}), fields.get("output_tokens")
    if not isinstance(prompt, str) or not isinstance(extra, dict):
        raise ConfigError(f"{where}: prompt is a text and extra_body an object")
    if limit is not None and (not isinstance(limit, int) or limit < 1):
        raise ConfigError(f"{where}: output_tokens is {limit!r}; give a number from 1")
    return BenchRequest(
        messages=_messages(fields, prompt, where, folder),
        speech_text=prompt,
        prompt_len_tokens=len(prompt.split()),
        max_tokens=limit or output_len_tokens,
        fields=extra,
    )


def _messages(fields: Mapping[str, object], prompt: str, where: str, folder: Path) -> tuple[Mapping[str, object], ...]:
    given = fields.get("messages")
    if given is not None:
        if not isinstance(given, list) or not given or not all(isinstance(message, dict) for message in given):
            raise ConfigError(f"{where}: messages is a list of objects")
        if doubled := [key for key in ("prompt", "system", "images", "audios", "video") if key in fields]:
            raise ConfigError(f"{where}: {doubled[0]!r} does not go with 'messages'")
        return tuple(given)
    parts = [
        url_part(kind, _address(item, where, folder))
        for key, kind in (("images", "image"), ("audios", "audio"), ("video", "video"))
        for item in _items(fields.get(key))
    ]
    if prompt:
        parts.append(text_part(prompt))
    if not parts:
        raise ConfigError(f"{where}: needs 'prompt', 'messages' or media")
    system = fields.get("system")
    head = ({"role": "system", "content": system},) if system else ()
    return (*head, user_message(*parts))


def _items(value: object) -> list[object]:
    return [] if value is None else value if isinstance(value, list) else [value]


def _address(item: object, where: str, folder: Path) -> str:
    if not isinstance(item, str):
        raise ConfigError(f"{where}: media are file names or addresses, not {item!r}")
    if item.startswith(("http://", "https://", "data:", "file:")):
        return item
    return media_url(folder / item, is_inline=True)
