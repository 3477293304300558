"""Checks what `antiphon bench serve` was given and turns it into the types of the benchmark."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from antiphon.bench.datasets import daily_omni, json_lines, seed_tts
from antiphon.bench.datasets.catalogue import DATASETS, DataSetOptions, RandomMediaSet
from antiphon.bench.datasets.daily_omni import DailyOmniOptions
from antiphon.bench.datasets.json_lines import JsonLinesOptions
from antiphon.bench.datasets.random_mm import RandomMediaOptions, parse_buckets, parse_limits
from antiphon.bench.datasets.random_text import RandomOptions
from antiphon.bench.datasets.seed_tts import SeedTtsOptions
from antiphon.core.errors import ConfigError

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


@dataclass(frozen=True, kw_only=True)
class DatasetFlags:
    """The data set's flags as they were given."""

    name: str
    path: Path | None
    output_len: int | None
    random_input_len: int
    random_output_len: int
    random_prefix_len: int
    random_range_ratio: float
    mm_items: int
    mm_items_ratio: float
    mm_limits: str
    mm_buckets: str
    seed_tts_locale: str
    seed_tts_root: Path | None
    seed_tts_is_inline: bool
    seed_tts_system_prompt: str
    daily_qa: Path | None
    daily_videos: Path | None
    daily_is_inline: bool
    daily_input_mode: str
    daily_pack_mode: str


def pick_dataset(flags: DatasetFlags) -> DataSetOptions:
    """The options of the data set that is named.

    Raises:
        ConfigError: unknown name, no path where one is needed, or a value out of range.
    """
    if flags.name not in DATASETS:
        raise ConfigError(f"--dataset-name: unknown {flags.name!r}; known: {', '.join(DATASETS)}")
    if flags.name in ("random", "random-mm"):
        text = RandomOptions(
            input_len_tokens=flags.random_input_len,
            output_len_tokens=flags.output_len or flags.random_output_len,
            prefix_len_tokens=flags.random_prefix_len,
            range_ratio=flags.random_range_ratio,
        )
        if flags.name == "random":
            return text
        media = RandomMediaOptions(
            buckets=parse_buckets(flags.mm_buckets),
            items_per_request=flags.mm_items,
            items_range_ratio=flags.mm_items_ratio,
            limits=parse_limits(flags.mm_limits),
        )
        return RandomMediaSet(text=text, media=media)
    if flags.name == "seed-tts":
        return _seed_tts(flags)
    if flags.name == "daily-omni":
        return _daily_omni(flags)
    path = _needed(flags.path, flags.name)
    return JsonLinesOptions(path=path, output_len_tokens=flags.output_len or json_lines.DEFAULT_OUTPUT_LEN)


def parse_base_url(base_url: str, host: str, port: int) -> str:
    """The address in front of every path, without a slash at its end; `/v1` at its end is dropped, paths bring it."""
    url = base_url or f"http://{f'[{host}]' if ':' in host else host}:{port}"
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ConfigError(f"--base-url is {url!r}; give something like http://127.0.0.1:8099")
    return url.rstrip("/").removesuffix("/v1")


def parse_extra_body(text: str, modalities: str) -> Mapping[str, object]:
    """The JSON object of --extra-body, with --modalities unless it has its own."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"--extra-body is not JSON ({error})") from None
    if not isinstance(found, dict):
        raise ConfigError("--extra-body must be a JSON object")
    names = [name.strip() for name in modalities.split(",") if name.strip()]
    return {"modalities": names, **found} if names else found


def parse_headers(pairs: Sequence[str], api_key: str) -> dict[str, str]:
    """`NAME=VALUE` (or `NAME: VALUE`) to headers, and the bearer key."""
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    for pair in pairs:
        name, separator, value = pair.partition("=" if "=" in pair.split(":")[0] else ":")
        if not separator or not _HEADER_NAME.fullmatch(name.strip()) or not value.isprintable():
            raise ConfigError(f"--header {pair!r}: give NAME=VALUE")
        headers[name.strip()] = value.strip()
    return headers


def parse_metadata(pairs: Sequence[str]) -> dict[str, str]:
    """`KEY=VALUE` to a mapping."""
    found = dict(pair.partition("=")[::2] for pair in pairs if "=" in pair)
    if len(found) != len(pairs):
        raise ConfigError("--metadata: give KEY=VALUE, each key once")
    return found


def check_rate(request_rate: float, burstiness: float) -> None:
    """Refuse rates and shapes that no arrivals have."""
    if not request_rate > 0:
        raise ConfigError(f"--request-rate is {request_rate:g}; give a number above 0, or inf")
    if not 0 < burstiness < float("inf"):
        raise ConfigError(f"--burstiness is {burstiness:g}; give a number above 0")


def _seed_tts(flags: DatasetFlags) -> SeedTtsOptions:
    return SeedTtsOptions(
        root=_needed(flags.seed_tts_root or flags.path, flags.name),
        locale=flags.seed_tts_locale,
        is_inline=flags.seed_tts_is_inline,
        system_prompt=flags.seed_tts_system_prompt or seed_tts.SYSTEM_PROMPT,
        output_len_tokens=flags.output_len or seed_tts.DEFAULT_OUTPUT_LEN,
    )


def _daily_omni(flags: DatasetFlags) -> DailyOmniOptions:
    is_complete = flags.daily_qa is not None and flags.daily_videos is not None
    folder = Path() if is_complete else _needed(flags.path, flags.name)
    return DailyOmniOptions(
        question_file=flags.daily_qa or folder / "qa.json",
        video_folder=flags.daily_videos or folder / "Videos",
        is_inline=flags.daily_is_inline,
        input_mode=flags.daily_input_mode,
        pack_mode=flags.daily_pack_mode,
        output_len_tokens=flags.output_len or daily_omni.DEFAULT_OUTPUT_LEN,
    )


def _needed(path: Path | None, name: str) -> Path:
    if path is None:
        raise ConfigError(f"--dataset-name {name} needs --dataset-path")
    return path
