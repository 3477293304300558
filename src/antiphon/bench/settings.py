"""What one benchmark run is asked to do."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from math import inf

from antiphon.bench.continuity import DEFAULT_THRESHOLD_S
from antiphon.bench.metric_names import METRICS, MetricName
from antiphon.core.errors import ConfigError


class Backend(Enum):
    """Which request is sent and how its answer is read."""

    CHAT_OMNI = "openai-chat-omni"
    CHAT = "openai-chat"  # nothing but OpenAI's own fields, for servers that refuse others
    SPEECH = "openai-audio-speech"

    @property
    def endpoint(self) -> str:
        return "/v1/audio/speech" if self is Backend.SPEECH else "/v1/chat/completions"


LIVE_BACKENDS = ("openai-realtime-duplex", "openai-realtime-tts")  # sessions, not requests: see `duplex_load`
BACKEND_ALIASES = {"daily-omni": "openai-chat-omni", "openai-chat-completions": "openai-chat"}


def parse_backend(name: str) -> Backend:
    """The backend of that name or alias."""
    try:
        return Backend(BACKEND_ALIASES.get(name, name))
    except ValueError:
        known = ", ".join([*(backend.value for backend in Backend), *BACKEND_ALIASES, *LIVE_BACKENDS])
        raise ConfigError(f"--backend: unknown {name!r}; known: {known}") from None


@dataclass(frozen=True, kw_only=True)
class Level:
    """One measurement of a run. `max_concurrency` None: as many at once as the arrivals bring."""

    max_concurrency: int | None
    num_prompts: int


@dataclass(frozen=True, kw_only=True)
class Target:
    """Where requests go, and what is sent with each."""

    base_url: str
    endpoint: str
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return self.base_url + self.endpoint


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """All but the requests themselves. Rates are requests per second; inf sends at once."""

    backend: Backend = Backend.CHAT_OMNI
    levels: tuple[Level, ...]
    request_rate: float = inf
    burstiness: float = 1.0
    num_warmups: int = 0
    seed: int = 0
    timeout_s: float = 900.0
    ready_timeout_s: float = 0.0
    metrics: tuple[MetricName, ...] = tuple(METRICS.values())
    percentiles: tuple[float, ...] = (99.0,)
    goodput_s: Mapping[str, float] = field(default_factory=dict)
    continuity_threshold_s: float = DEFAULT_THRESHOLD_S
    has_stage_metrics: bool = False
    has_stage_table: bool = False


def parse_levels(max_concurrency: str, num_prompts: str) -> tuple[Level, ...]:
    """`1,4,8` and `32` or `32,64,128` to one level each; an empty list of concurrencies is one unlimited level."""
    limits = _counts("--max-concurrency", max_concurrency) or (None,)
    sizes = _counts("--num-prompts", num_prompts)
    if len(sizes) == 1:
        sizes = sizes * len(limits)
    if len(sizes) != len(limits):
        raise ConfigError(
            f"--num-prompts has {len(sizes)} numbers for {len(limits)} of --max-concurrency: give 1 or as many"
        )
    return tuple(Level(max_concurrency=limit, num_prompts=size) for limit, size in zip(limits, sizes, strict=True))


def _counts(flag: str, text: str) -> tuple[int, ...]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not all(word.isascii() and word.isdecimal() and int(word) > 0 for word in words):
        raise ConfigError(f"{flag} is {text!r}; give a number from 1, or a comma list of them")
    return tuple(int(word) for word in words)
