"""`random-mm`: random prompts with made-up images, clips and sounds, drawn from buckets of sizes."""

import ast
import base64
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from antiphon.bench.bench_request import BenchRequest, text_part, url_part, user_message
from antiphon.bench.datasets.made_media import data_url, make_audio, make_image, make_video
from antiphon.bench.datasets.random_text import RandomOptions, draw_texts
from antiphon.core.errors import ConfigError

DEFAULT_BUCKETS = "{(256, 256, 1): 0.5, (720, 1280, 1): 0.5}"
DEFAULT_LIMITS = '{"image": 255, "video": 1, "audio": 64}'


@dataclass(frozen=True, order=True)
class Bucket:
    """(height, width, frames): an image with one frame, a clip with more; height 0: (0, seconds, channels) of sound."""

    height: int
    width: int
    depth: int

    @property
    def kind(self) -> str:
        if self.height == 0:
            return "audio"
        return "image" if self.depth == 1 else "video"


@dataclass(frozen=True, kw_only=True)
class RandomMediaOptions:
    """Buckets with their probabilities, how many items a request has, and at most how many of a kind."""

    buckets: Mapping[Bucket, float]
    items_per_request: int = 1
    items_range_ratio: float = 0.0
    limits: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.items_per_request < 0 or not 0 <= self.items_range_ratio <= 1:
            raise ConfigError("--random-mm-base-items-per-request starts at 0, its range ratio lies in [0, 1]")


def parse_buckets(text: str) -> dict[Bucket, float]:
    """`{(256, 256, 1): 0.5, (0, 2, 1): 0.5}` to buckets; probabilities are scaled to sum to 1.

    Raises:
        ConfigError: not such a mapping.
    """
    try:
        found = ast.literal_eval(text)
        buckets = {Bucket(*(int(side) for side in key)): float(share) for key, share in found.items() if share}
    except (ValueError, SyntaxError, TypeError, AttributeError):
        buckets = {}
    is_sound = all(
        bucket.height >= 0 and bucket.width > 0 and bucket.depth > 0 and share > 0 for bucket, share in buckets.items()
    )
    if not buckets or not is_sound:
        raise ConfigError(
            f"--random-mm-bucket-config is {text!r}; give {{(height, width, frames): share}}, "
            "or (0, seconds, channels) for audio"
        )
    total = sum(buckets.values())
    return {bucket: share / total for bucket, share in buckets.items()}


def parse_limits(text: str) -> dict[str, int]:
    """`{"image": 3, "video": 0}` to most items of a kind; a kind that is not named is not limited."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(
        kind in ("image", "audio", "video") and isinstance(limit, int) and limit >= 0 for kind, limit in found.items()
    ):
        raise ConfigError(f"--random-mm-limit-mm-per-prompt is {text!r}; give JSON with image, audio and video counts")
    return found


def make_random_mm(
    count: int, text_options: RandomOptions, options: RandomMediaOptions, generator: np.random.Generator
) -> list[BenchRequest]:
    """*count* requests of media followed by text."""
    texts = draw_texts(count, text_options, generator)
    return [
        BenchRequest(
            messages=(
                user_message(
                    *(_part(bucket, generator) for bucket in _draw_buckets(options, generator)), text_part(drawn.text)
                ),
            ),
            speech_text=drawn.text,
            prompt_len_tokens=drawn.num_words,
            max_tokens=drawn.output_len_tokens,
        )
        for drawn in texts
    ]


def _draw_buckets(options: RandomMediaOptions, generator: np.random.Generator) -> Sequence[Bucket]:
    """The items of one request; a bucket whose kind is full is not drawn again."""
    low = round(options.items_per_request * (1 - options.items_range_ratio))
    high = round(options.items_per_request * (1 + options.items_range_ratio))
    drawn: list[Bucket] = []
    used: Counter[str] = Counter()
    for _ in range(int(generator.integers(low, high + 1))):
        free = [bucket for bucket in options.buckets if used[bucket.kind] < options.limits.get(bucket.kind, high)]
        if not free:
            break
        shares = np.array([options.buckets[bucket] for bucket in free])
        bucket = free[int(generator.choice(len(free), p=shares / shares.sum()))]
        used[bucket.kind] += 1
        drawn.append(bucket)
    return drawn


def _part(bucket: Bucket, generator: np.random.Generator) -> dict[str, object]:
    if bucket.kind == "audio":
        content = make_audio(bucket.width, bucket.depth, generator)
        sound = {"data": base64.b64encode(content).decode(), "format": "wav"}
        return {"type": "input_audio", "input_audio": sound}
    if bucket.kind == "image":
        return url_part("image", data_url("image/jpeg", make_image(bucket.height, bucket.width, generator)))
    clip = make_video(bucket.height, bucket.width, bucket.depth, generator)
    return url_part("video", data_url("video/mp4", clip))
