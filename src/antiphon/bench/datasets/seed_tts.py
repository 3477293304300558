"""`seed-tts`: target texts to be spoken in the voice of a reference recording, from a folder in Seed-TTS's layout.

ROOT/LOCALE/meta.lst has one line per utterance: id|reference text|reference wav|target text.
"""

from dataclasses import dataclass
from pathlib import Path

from antiphon.bench.bench_request import BenchRequest, text_part, user_message
from antiphon.bench.datasets.media_files import media_url
from antiphon.core.errors import ConfigError

LANGUAGES = {"en": "English", "zh": "Chinese"}
SYSTEM_PROMPT = "Speak the user's text word for word, in the voice of the reference recording. Add nothing to it."
DEFAULT_OUTPUT_LEN = 2048


@dataclass(frozen=True, kw_only=True)
class SeedTtsOptions:
    """`is_inline` False sends recordings as `file:` addresses, for a server that may read the folder."""

    root: Path
    locale: str = "en"
    is_inline: bool = True
    system_prompt: str = SYSTEM_PROMPT
    output_len_tokens: int = DEFAULT_OUTPUT_LEN


@dataclass(frozen=True)
class Utterance:
    """One line of the list: what is to be said, and the recording whose voice says it."""

    utterance_id: str
    reference_text: str
    reference: Path
    target_text: str


def read_seed_tts(options: SeedTtsOptions) -> list[BenchRequest]:
    """A request for each utterance. Raises as `read_utterances`, or MediaError if a recording is missing."""
    return [utterance_request(utterance, options) for utterance in read_utterances(options)]


def read_utterances(options: SeedTtsOptions) -> list[Utterance]:
    """All utterances, in the file's order.

    Raises:
        ConfigError: unknown locale, no such file, or a line that is not as it should be.
    """
    if options.locale not in LANGUAGES:
        raise ConfigError(f"--seed-tts-locale is {options.locale!r}; known: {', '.join(LANGUAGES)}")
    folder = options.root / options.locale
    path = folder / "meta.lst"
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise ConfigError(
            f"{path}: {error.strerror}; --dataset-path is the folder that holds {options.locale}"
        ) from None
    utterances = [
        _parse(line, f"{path}:{number}", folder) for number, line in enumerate(lines, start=1) if line.strip()
    ]
    if not utterances:
        raise ConfigError(f"{path}: holds no utterances")
    return utterances


def utterance_request(utterance: Utterance, options: SeedTtsOptions) -> BenchRequest:
    """What asks for *utterance*. Raises MediaError if its recording is missing."""
    return BenchRequest(
        messages=(
            {"role": "system", "content": options.system_prompt},
            user_message(text_part(utterance.target_text)),
        ),
        speech_text=utterance.target_text,
        prompt_len_tokens=len(utterance.target_text.split()),
        max_tokens=options.output_len_tokens,
        fields={
            "ref_audio": media_url(utterance.reference, is_inline=options.is_inline),
            "ref_text": utterance.reference_text,
            "task_type": "Base",
            "language": LANGUAGES[options.locale],
            "max_new_tokens": options.output_len_tokens,
            "modalities": ["text", "audio"],
        },
    )


def _parse(line: str, where: str, folder: Path) -> Utterance:
    columns = [column.strip() for column in line.split("|")]
    if len(columns) < 4 or not columns[2] or not columns[3]:
        raise ConfigError(f"{where}: give id|reference text|reference wav|target text")
    return Utterance(columns[0], columns[1], folder / columns[2], columns[3])
