"""What the Realtime endpoints are told at start-up."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from antiphon.realtime import limits
from antiphon.realtime.limits import Limits
from antiphon.realtime.settings import SessionSettings
from antiphon.realtime.vad import ScorerSource

DEFAULT_INSTRUCTIONS = "Streaming Omni Conversation."
ANY_ORIGIN = "*"
DEFAULT_LIMITS = Limits()
DEFAULT_SESSION = SessionSettings(instructions=DEFAULT_INSTRUCTIONS)


@dataclass(frozen=True, kw_only=True)
class Timeouts:
    """Seconds (specification section 6.5)."""

    first_message_s: float = limits.FIRST_MESSAGE_S
    control_s: float = limits.CONTROL_S
    pump_drain_s: float = limits.PUMP_DRAIN_S
    warmup_hold_s: float = limits.WARMUP_HOLD_S
    refusal_wait_s: float = limits.REFUSAL_WAIT_S
    write_s: float = limits.WRITE_TIMEOUT_S
    queue_update_s: float = limits.QUEUE_UPDATE_S


DEFAULT_TIMEOUTS = Timeouts()


@dataclass(frozen=True, kw_only=True)
class RealtimeSettings:
    """`defaults` are those of a session that says nothing, its reference voice among them."""

    limits: Limits = DEFAULT_LIMITS
    timeouts: Timeouts = DEFAULT_TIMEOUTS
    defaults: SessionSettings = DEFAULT_SESSION
    api_keys: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()  # beside the server's own; `*` is any
    scorer_source: ScorerSource | None = None
    on_speech_end: Callable[[float], None] | None = None  # see `Surroundings`
    is_duplex: bool = True  # false: the deployment has no duplex model, and says so
    num_api_workers: int = 1  # sessions live in one process; with more the endpoints refuse
    max_handshakes_per_minute: int = 600  # of one address
    record_folder: Path | None = None  # where a trace of every session is kept; None: none is
