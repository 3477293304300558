"""What a benchmark of live sessions is asked to do."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

from antiphon.bench.settings import LIVE_BACKENDS, Level

ENDPOINT = "/v1/realtime"
NAME, ALIAS = LIVE_BACKENDS
RATE_HZ = 16_000
UNIT_S = 1.0
DEFAULT_PERCENTILES = (50.0, 90.0, 99.0)


@dataclass(frozen=True, kw_only=True)
class DuplexSettings:
    """A run. `max_concurrency` of a level is the number of sessions at once, `num_prompts` that of all its sessions.

    Attributes:
        session: merged at the root of every session object.
        stagger_s: sessions of one level begin spread over so long, so that their seconds do not all end at once.
        settle_s: how long outputs of the last seconds are waited for behind the input.
        slot_wait_s: how long a session is asked for again while the server has no place.
        response_wait_s: for the answer of a session that is given a text to speak.
    """

    levels: tuple[Level, ...]
    request_rate: float = inf
    burstiness: float = 1.0
    num_warmups: int = 0
    seed: int = 0
    chunk_ms: int = 200
    stagger_s: float = UNIT_S
    settle_s: float = 10.0
    slot_wait_s: float = 120.0
    response_wait_s: float = 180.0
    timeout_s: float = 900.0
    ready_timeout_s: float = 0.0
    percentiles: tuple[float, ...] = DEFAULT_PERCENTILES
    continuity_threshold_s: float = 0.1
    session: Mapping[str, object] = field(default_factory=dict)
    has_stage_metrics: bool = False
