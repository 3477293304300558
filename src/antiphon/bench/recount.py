"""Counts tokens here when the server does not tell its own count."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tokenizers import Tokenizer

from antiphon.bench.timeline import Answer, Usage
from antiphon.core.errors import ConfigError

CountTokens = Callable[[str], int]


def load_counter(path: Path) -> CountTokens:
    """A counter from `tokenizer.json`, or from a folder that holds one.

    Raises:
        ConfigError: there is none, or it cannot be read.
    """
    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.is_file():
        raise ConfigError(f"--tokenizer {path}: no tokenizer.json there")
    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises bare Exception
        raise ConfigError(f"--tokenizer {file}: cannot be read ({error})") from error

    def count(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=False).ids)

    return count


def with_counts(answer: Answer, messages: Sequence[Mapping[str, object]], count: CountTokens) -> Answer:
    """*answer* with counts of its text and of the text in *messages*, unless the server gave its own."""
    if answer.usage is not None:
        return answer
    prompt_tokens = sum(count(text) for message in messages for text in _texts(message.get("content")))
    return replace(answer, usage=Usage(prompt_tokens=prompt_tokens, completion_tokens=count(answer.text)))


def _texts(content: object) -> Sequence[str]:
    if isinstance(content, str):
        return [content]
    parts = content if isinstance(content, list) else []
    return [part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]
